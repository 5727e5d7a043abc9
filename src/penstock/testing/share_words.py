"""What a member of a share group says and hears, in the protocol's classes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from penstock.protocol.generated.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
)
from penstock.protocol.generated.share_fetch import PartitionData
from penstock.records.batch import HEAD_SIZE, BatchHead, batch_end, read_head
from penstock.records.record import Header, Record, iterate


class Word(IntEnum):
    """What can be said about a record, as ShareAcknowledge numbers it."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Shared(NamedTuple):
    """A record that this member has acquired."""

    topic: str
    partition: int
    offset: int
    deliveries: int
    """1 at the first delivery."""
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class Spot(NamedTuple):
    """A partition, as requests name it."""

    topic_id: bytes
    partition: int


def grouped(spots: Iterable[Spot]) -> list[tuple[bytes, list[int]]]:
    """Partitions under their topics."""
    by_topic: dict[bytes, list[int]] = {}
    for spot in sorted(spots):
        by_topic.setdefault(spot.topic_id, []).append(spot.partition)
    return list(by_topic.items())


def acknowledged(offsets: Mapping[Spot, Iterable[int]], word: Word) -> list[AcknowledgeTopic]:
    """One word about many records, as a request has it."""
    return [
        AcknowledgeTopic(
            topic_id=topic_id,
            partitions=[
                AcknowledgePartition(
                    partition_index=number,
                    acknowledgement_batches=runs(offsets[Spot(topic_id, number)], word),
                )
                for number in numbers
            ],
        )
        for topic_id, numbers in grouped(offsets)
    ]


def runs(offsets: Iterable[int], word: Word) -> list[AcknowledgementBatch]:
    """Offsets that follow each other go in one batch, which has one word for all of them."""
    batches: list[AcknowledgementBatch] = []
    for offset in sorted(offsets):
        if batches and batches[-1].last_offset == offset - 1:
            batches[-1].last_offset = offset
        else:
            batches.append(
                AcknowledgementBatch(
                    first_offset=offset, last_offset=offset, acknowledge_types=[int(word)]
                )
            )
    return batches


def acquired(topic: str, part: PartitionData) -> tuple[list[Shared], list[int]]:
    """The records that were acquired, and the offsets among them at which there is none: those of
    markers, and of what compaction took. What is cut off at the end is neither."""
    counts = {
        offset: each.delivery_count
        for each in part.acquired_records
        for offset in range(each.first_offset, each.last_offset + 1)
    }
    got: list[Shared] = []
    end = 0
    for head, records in _batches(part):
        end = head.end_offset
        got += [
            Shared(
                topic,
                part.partition_index,
                record.offset,
                counts[record.offset],
                record.timestamp,
                None if record.key is None else bytes(record.key),
                None if record.value is None else bytes(record.value),
                record.headers,
            )
            for record in records
            if record.offset in counts  # the others that the batch holds are not ours
        ]
    seen = {record.offset for record in got}
    return got, [offset for offset in counts if offset < end and offset not in seen]


def _batches(part: PartitionData) -> Iterator[tuple[BatchHead, Iterable[Record]]]:
    """Whole batches, and the records in them that are for users."""
    data = part.records
    assert isinstance(data, memoryview), "an answer that came over the wire holds bytes"
    at = 0
    while len(data) - at >= HEAD_SIZE and (end := batch_end(data, at)) <= len(data):
        head = read_head(data, at)
        yield head, () if head.is_control else iterate(data, at, head=head)
        at = end

"""Metadata records as batches of the log, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.metadata.levels import record_version
from penstock.protocol.generated import control_records as controls
from penstock.protocol.record_frames import read_frame, write_frame
from penstock.records import control
from penstock.records.batch import COMPRESSION_MASK, CONTROL, HEAD_SIZE, BatchHead
from penstock.records.builder import BatchBuilder, control_batch
from penstock.records.record import iterate
from penstock.records.varint import InvalidRecord, read_varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.protocol.message import Message
    from penstock.raft.voters import Voters

BATCH_BYTES_MAX = 8 << 20
"""What a follower fetches at least in one piece, so that any batch reaches it."""

_CONTROLS: dict[int, type[Message]] = {
    control.LEADER_CHANGE: controls.LeaderChangeMessage,
    control.SNAPSHOT_HEADER: controls.SnapshotHeaderRecord,
    control.SNAPSHOT_FOOTER: controls.SnapshotFooterRecord,
    control.KRAFT_VERSION: controls.KRaftVersionRecord,
    control.KRAFT_VOTERS: controls.VotersRecord,
}


def encode_batch(
    records: Iterable[Message], level: int, base_offset: int, epoch: int, now: int
) -> bytes:
    """One batch of metadata records, each in the version that metadata.version `level` allows."""
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    append = builder.append
    for record in records:
        append(None, write_frame(record, record_version(record, level)), now)
    return builder.build()


def encode_batches(
    records: Iterable[Message], level: int, base_offset: int, epoch: int, now: int, size_max: int
) -> Iterable[bytes]:
    """The records in as many batches as they need, none much above `size_max` bytes."""
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    for record in records:
        builder.append(None, write_frame(record, record_version(record, level)), now)
        if builder.size >= size_max:
            yield builder.build()
            builder = BatchBuilder(base_offset=builder.last_offset + 1, leader_epoch=epoch)
    if builder.count:
        yield builder.build()


def encode_controls(
    messages: Sequence[tuple[int, Message]], base_offset: int, epoch: int, now: int
) -> bytes:
    """One control batch of (kind, message) pairs."""
    pairs = [(kind, message.encode(0)) for kind, message in messages]
    return control_batch(pairs, now, base_offset=base_offset, leader_epoch=epoch)


def leader_change(
    leader: int, voters: Voters, granted: Sequence[int]
) -> tuple[int, controls.LeaderChangeMessage]:
    return control.LEADER_CHANGE, controls.LeaderChangeMessage(
        version=0,
        leader_id=leader,
        voters=[controls.LeaderChangeMessageVoter(voter_id=voter) for voter in voters.ids],
        granting_voters=[controls.LeaderChangeMessageVoter(voter_id=voter) for voter in granted],
    )


def decode_records(head: BatchHead, data: bytes | memoryview) -> list[Any]:
    """The metadata records of a batch; none if it is a control batch."""
    if head.attributes & CONTROL:
        return []
    values = _values if not head.attributes & COMPRESSION_MASK else _compressed_values
    return [read_frame(value)[0] for value in values(head, data)]


def _values(head: BatchHead, data: bytes | memoryview) -> Iterator[memoryview]:
    """The records' values, and nothing else of them: a node that starts reads very many."""
    view = memoryview(data)
    at = HEAD_SIZE
    try:
        for _ in range(head.count):
            size, at = read_varint(view, at)
            end = at + size
            at += 1  # attributes
            for _ in ("timestamp delta", "offset delta"):
                while view[at] > 127:
                    at += 1
                at += 1
            key_size, at = read_varint(view, at)
            value_size, at = read_varint(view, at + max(key_size, 0))
            if value_size < 0 or at + value_size > end or end > len(view):
                raise InvalidRecord("a metadata record has no value, or is cut short")
            yield view[at : at + value_size]
            at = end
    except IndexError:
        raise InvalidRecord("a metadata record runs past the end of its batch") from None


def _compressed_values(head: BatchHead, data: bytes | memoryview) -> Iterator[memoryview]:
    for record in iterate(data, head=head):
        if record.value is None:
            raise InvalidRecord(f"the metadata record at offset {record.offset} has no value")
        yield record.value


def decode_controls(head: BatchHead, data: bytes | memoryview) -> list[tuple[int, Any]]:
    """The (kind, message) pairs of a control batch; kinds that are not known are left out."""
    if not head.attributes & CONTROL:
        return []
    found = []
    for record in iterate(data, head=head):
        if record.key is None or record.value is None:
            raise ValueError(f"the control record at offset {record.offset} is not whole")
        kind = control.control_type(record.key)
        message = _CONTROLS.get(kind)
        if message is not None:
            found.append((kind, message.read(record.value, 0)[0]))
    return found

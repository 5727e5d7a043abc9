"""Which records of a batch survive compaction, and the batch that is made of them. Pure.

A record survives if no later one has its key, as far as the map reaches. Beyond that:

- A tombstone (a key without value) survives once more, so that readers who are behind learn of the
  deletion: its batch gets a delete horizon, `delete.retention.ms` ahead, and it goes when a later
  round finds the horizon passed.
- Records of aborted transactions go. A marker goes like a tombstone, after the last batch of its
  transaction is gone.
- The newest batch of every active producer stays, if need be without records, because its last
  sequence (or a marker's epoch) is written nowhere else. So does the last batch of the round: it
  carries the offset at which the round ended.

Offsets never change, and neither does the order. A batch keeps its offset range, its producer and
its sequences whatever it loses.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.records.batch import (
    COMPRESSION_MASK,
    CONTROL,
    TIMESTAMP_APPEND,
    TRANSACTIONAL,
    BatchHead,
    Bytes,
)
from penstock.records.builder import BatchBuilder, empty_batch
from penstock.records.compression import SIZE_MAX
from penstock.records.control import read_marker
from penstock.records.record import Record, iterate
from penstock.storage.compaction_map import OffsetMap
from penstock.storage.txn_index import AbortedTxn

RECORDS_PER_BREATH = 64
BREATH_EVERY_S = 0.001
BREATH_S = 0.00002


class ActiveProducer(NamedTuple):
    """Where a live producer's newest batch is: by its last offset, or, without data in its current
    epoch, by the epoch of its last marker."""

    last_offset: int
    epoch: int


class Round(NamedTuple):
    """What holds for a whole round of compaction."""

    now: int
    delete_retention_ms: int
    end: int
    """Where the part of the log ends that may be compacted at all."""
    producers: Mapping[int, ActiveProducer]
    size_max: int = SIZE_MAX


class TxnTracker:
    """Follows transactions through the log, to tell aborted batches and superfluous markers."""

    __slots__ = ("_aborted", "_committed", "_seen", "_waiting", "kept")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._waiting = deque(sorted(aborted, key=lambda txn: txn.first_offset))
        self._aborted: dict[int, AbortedTxn] = {}
        self._seen: set[int] = set()  # of the aborted: those with a batch still in the log
        self._committed: set[int] = set()
        self.kept: list[AbortedTxn] = []
        """Entries for the index of the segment that is being written: take them and clear."""

    def is_aborted(self, head: BatchHead) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        if self._waiting:
            self._begin(head.last_offset)
        if not head.attributes & TRANSACTIONAL:
            return False
        if head.producer_id in self._aborted:
            self._seen.add(head.producer_id)
            return True
        self._committed.add(head.producer_id)
        return False

    def is_superfluous(self, batch: Bytes, head: BatchHead) -> bool:
        """Whether nothing is left of the transaction that a control batch ends."""
        self._begin(head.last_offset)
        marker = read_marker(batch, 0, head)
        if marker is None:
            return head.count == 0  # it was emptied before; other control records stay
        producer_id = head.producer_id
        if marker.is_commit:
            had_data = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_data
        txn = self._aborted.pop(producer_id, None)
        if txn is None or producer_id not in self._seen:
            return True
        self._seen.discard(producer_id)
        self.kept.append(txn)
        return False

    def _begin(self, last_offset: int) -> None:
        while self._waiting and self._waiting[0].first_offset <= last_offset:
            txn = self._waiting.popleft()
            self._aborted.setdefault(txn.producer_id, txn)


class Breath:
    """Lets the event loop have the interpreter about once a millisecond of our work.

    A real pause, however short: a thread that merely offers the interpreter takes it back before
    the other has woken up, and then keeps it for Python's whole switch interval.
    """

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due = 0.0

    def take(self) -> None:
        if time.monotonic() >= self._due:
            time.sleep(BREATH_S)
            self._due = time.monotonic() + BREATH_EVERY_S


def note_keys(
    offsets: OffsetMap, batch: Bytes, head: BatchHead, start: int, size_max: int, breath: Breath
) -> bool:
    """Enter the keys of a data batch from offset `start` on; False if the map became full."""
    for number, record in enumerate(iterate(batch, 0, size_max, head)):
        if number % RECORDS_PER_BREATH == 0:
            breath.take()
        key = record.key
        if key is not None and record.offset >= start:
            if offsets.is_full:
                return False
            offsets.put(key, record.offset)
    return True


class BatchFilter:
    """Makes each batch of a segment into what stays of it."""

    __slots__ = ("_breath", "_offsets", "_round", "_txns")

    def __init__(self, offsets: OffsetMap, txns: TxnTracker, round_: Round, breath: Breath) -> None:
        self._breath = breath
        self._offsets = offsets
        self._txns = txns
        self._round = round_

    def survivor(self, batch: Bytes, head: BatchHead) -> Bytes | None:
        """The batch to write: the same, a smaller one, an empty one, or None."""
        horizon = head.delete_horizon
        if head.attributes & CONTROL:
            superfluous = self._txns.is_superfluous(batch, head)
            if not superfluous:
                return batch
            if horizon is None and head.count:
                return self._rebuild(head, list(iterate(batch, 0, head=head)), self._next_horizon)
            discard = horizon is None or horizon <= self._round.now
            if not discard:
                return batch
        else:
            discard = self._txns.is_aborted(head)
            if not discard:
                kept = self._filter(batch, head, horizon)
                if kept is not None:
                    return kept
        return empty_batch(head) if self._is_needed(head) else None

    @property
    def _next_horizon(self) -> int:
        return self._round.now + self._round.delete_retention_ms

    def _is_needed(self, head: BatchHead) -> bool:
        """Whether the batch must stay even without records."""
        if head.end_offset == self._round.end:
            return True
        active = self._round.producers.get(head.producer_id)
        if active is None or head.producer_id < 0:
            return False
        if active.last_offset >= 0:
            return head.last_offset == active.last_offset
        return head.is_control and head.producer_epoch == active.epoch

    def _filter(self, batch: Bytes, head: BatchHead, horizon: int | None) -> Bytes | None:
        """What stays of a data batch by keys; None if no record does."""
        if head.base_offset >= self._offsets.end:
            return batch  # the map does not reach it: the next round will
        tombstones_stay = horizon is None or self._round.now < horizon
        kept: list[Record] = []
        has_tombstone = False
        for number, record in enumerate(iterate(batch, 0, self._round.size_max, head)):
            if number % RECORDS_PER_BREATH == 0:
                self._breath.take()
            if self._stays(record, tombstones_stay):
                kept.append(record)
                has_tombstone = has_tombstone or record.value is None
        if not kept:
            return None
        needs_horizon = has_tombstone and horizon is None
        if len(kept) == head.count and not needs_horizon:
            return batch
        return self._rebuild(head, kept, self._next_horizon if needs_horizon else horizon)

    def _stays(self, record: Record, tombstones_stay: bool) -> bool:
        if record.offset >= self._offsets.end:
            return True
        if record.key is None:
            return False  # written before the topic was compacted: nothing can replace it
        if record.offset < self._offsets.get(record.key):
            return False
        return record.value is not None or tombstones_stay

    @staticmethod
    def _rebuild(head: BatchHead, records: list[Record], horizon: int | None) -> bytes:
        builder = BatchBuilder(
            base_offset=head.base_offset,
            leader_epoch=head.leader_epoch,
            compression=head.attributes & COMPRESSION_MASK,
            append_time=head.max_timestamp if head.attributes & TIMESTAMP_APPEND else None,
            producer_id=head.producer_id,
            producer_epoch=head.producer_epoch,
            base_sequence=head.base_sequence,
            transactional=head.is_transactional,
            control=head.is_control,
            delete_horizon=horizon,
        )
        for record in records:
            builder.append_record(record)
        return builder.build(last_offset=head.last_offset)

"""What a partition remembers of its idempotent and transactional producers.

For each producer id: its epoch, its last five batches (a client may have five in flight, so any of
them can come again), and where its open transaction began. A retry is recognised by its exact range
of sequences and answered with the offsets of the first time.

The hot path asks `check` before the append and tells `update` after it: one dictionary look-up
each. Batches without a producer id need neither. Whoever rebuilds the state (recovery, followers)
calls `replay` for every batch in offset order, after `load` of the newest snapshot at or below.

Open transactions are kept in the order of their first offsets, which is the order in which they
begin: the first of them bounds what a read-committed consumer may see.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.model.errors import ErrorCode
from penstock.records.batch import CONTROL, TRANSACTIONAL, BatchHead, Bytes, Fields
from penstock.records.control import read_marker
from penstock.storage.producer_snapshot import ProducerRow, decode_snapshot, encode_snapshot

BATCHES_KEPT = 5
SEQUENCE_MASK = 0x7FFFFFFF  # after 2^31 - 1 comes 0
EPOCH_MAX = 32767
NO_OFFSET = -1
OFFSET_BEYOND = 1 << 63  # above every offset

_new = tuple.__new__


class Duplicate(NamedTuple):
    """A batch that is in the log already: what its first append was answered."""

    base_offset: int
    last_offset: int
    timestamp: int


class CompletedTxn(NamedTuple):
    """A transaction that a marker ended. If aborted, it belongs into the `.txnindex`."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker itself."""
    is_aborted: bool
    last_stable_offset: int
    """What the partition's last stable offset can become once the marker is replicated."""


class KeptBatch(NamedTuple):
    """A remembered batch. The first sequence and offset follow from the delta."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int


Verdict = Duplicate | ErrorCode | None
"""None: fresh, append it."""


class Producer:
    """One producer id's state."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "next_sequence",
        "timestamp",
        "txn_first_offset",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.next_sequence = 0
        self.timestamp = -1
        self.coordinator_epoch = -1
        self.txn_first_offset = NO_OFFSET
        # A list: of five, and a deque takes 600 bytes when it is empty. There may be a producer for
        # each of many thousand partitions.
        self.batches: list[KeptBatch] = []

    @property
    def last_sequence(self) -> int:
        """Of the last remembered batch; -1 if there is none in this epoch."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def begin_epoch(self, epoch: int) -> None:
        """A new epoch counts its sequences from zero and repeats nothing of the old one."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.next_sequence = 0
            self.batches.clear()


class Producers:
    """The producers of one partition."""

    __slots__ = ("by_id", "first_unstable_offset", "ongoing", "unreplicated")

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}
        self.ongoing: dict[int, int] = {}
        """First offset of each open transaction, ascending, and whose it is."""
        self.unreplicated: dict[int, int] = {}
        """First and last offsets of transactions whose marker is not below the high watermark yet:
        if their leader died now, their end might be undone."""
        self.first_unstable_offset: int | None = None
        """Read-committed consumers see nothing from here on; None: all is decided."""

    def __len__(self) -> int:
        return len(self.by_id)

    # ── the hot path ────────────────────────────────────────────────────────────────────────────

    def check(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        last_sequence: int,
        transactional: bool = False,
    ) -> Verdict:
        """Whether a client's batch is next in line, a retry, or refused. Changes nothing."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            # Nothing is known: the first batch, or the earlier ones are gone by retention. Any
            # sequence may start then, or a producer could never go on after a quiet week.
            return None if epoch >= 0 else ErrorCode.INVALID_PRODUCER_EPOCH
        if epoch == producer.epoch:
            if base_sequence != producer.next_sequence:
                return _retry(producer, base_sequence, last_sequence)
        elif epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        elif base_sequence != 0:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if producer.txn_first_offset >= 0 and not transactional:
            return ErrorCode.INVALID_TXN_STATE
        return None

    def update(self, head: Fields, base_offset: int, timestamp: int) -> None:
        """Remember a data batch that was appended at `base_offset` with this max timestamp."""
        _, _, _, _, _, attributes, delta, _, _, producer_id, epoch, last_sequence, _ = head
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = Producer(epoch)
        elif epoch != producer.epoch:
            producer.begin_epoch(epoch)
        if last_sequence >= 0:  # a group coordinator's transactional offsets have none
            last_sequence = (last_sequence + delta) & SEQUENCE_MASK
        batches = producer.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(_new(KeptBatch, (last_sequence, base_offset + delta, delta, timestamp)))
        producer.next_sequence = (last_sequence + 1) & SEQUENCE_MASK
        producer.timestamp = timestamp
        if attributes & TRANSACTIONAL and producer.txn_first_offset < 0:
            producer.txn_first_offset = base_offset
            self.ongoing[base_offset] = producer_id
            if self.first_unstable_offset is None:
                self.first_unstable_offset = base_offset

    # ── transactions ────────────────────────────────────────────────────────────────────────────

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, epoch_must_rise: bool = False
    ) -> ErrorCode | None:
        """Whether a coordinator may still end this producer's transaction.

        From transaction version 2 on each transaction ends under an epoch above that of its data
        (`epoch_must_rise`): a delayed marker can then never end the next transaction. The same
        marker may come again, though, as long as nothing is open that it could end.
        """
        producer = self.by_id.get(producer_id)
        if producer is None:
            return None
        if epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if epoch_must_rise and epoch == producer.epoch:
            is_retry = producer.txn_first_offset < 0
            if not is_retry and epoch != EPOCH_MAX:  # the last epoch cannot rise
                return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return None

    def complete(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        offset: int,
        timestamp: int,
        is_commit: bool,
    ) -> CompletedTxn | None:
        """Take note of a marker at `offset`; None if it ended nothing on this partition."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = Producer(epoch)
        producer.begin_epoch(epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.timestamp = timestamp
        first_offset = producer.txn_first_offset
        if first_offset < 0:
            return None
        producer.txn_first_offset = NO_OFFSET
        del self.ongoing[first_offset]
        # The first unstable offset stays where it is: until the marker is replicated, this
        # transaction counts.
        self.unreplicated[first_offset] = offset
        stable = next(iter(self.ongoing), offset + 1)
        return CompletedTxn(producer_id, first_offset, offset, not is_commit, stable)

    def about_to_abort(self, producer_id: int, offset: int) -> CompletedTxn | None:
        """What an abort marker at `offset` will say of this producer's transaction; None if none
        is open. Changes nothing.
        """
        producer = self.by_id.get(producer_id)
        if producer is None or producer.txn_first_offset < 0:
            return None
        first = producer.txn_first_offset
        stable = next((other for other in self.ongoing if other != first), offset + 1)
        return CompletedTxn(producer_id, first, offset, True, stable)

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction begins. Compaction stops there."""
        return next(iter(self.ongoing), None)

    def advance_high_watermark(self, high_watermark: int) -> bool:
        """Markers below the high watermark can no longer be undone; whether there were any."""
        if not self.unreplicated:
            return False
        done = [first for first, last in self.unreplicated.items() if last < high_watermark]
        for first in done:
            del self.unreplicated[first]
        self._find_first_unstable()
        return bool(done)

    def _find_first_unstable(self) -> None:
        # Kept, not asked for each time: every fetch looks at it, and few change it.
        undecided = next(iter(self.ongoing), OFFSET_BEYOND)
        first = min(undecided, min(self.unreplicated, default=OFFSET_BEYOND))
        self.first_unstable_offset = None if first == OFFSET_BEYOND else first

    # ── rebuilding ──────────────────────────────────────────────────────────────────────────────

    def replay(self, view: Bytes, at: int, head: BatchHead) -> CompletedTxn | None:
        """Take note of a batch that is in the log: recovery, reload, and what followers fetched.

        Nothing is refused here: the log is the truth, whatever was checked when it was written.
        """
        if head.producer_id < 0:
            return None
        if head.attributes & CONTROL:
            marker = read_marker(view, at, head)
            if marker is None:
                return None
            return self.complete(
                head.producer_id,
                head.producer_epoch,
                marker.coordinator_epoch,
                head.base_offset,
                head.max_timestamp,
                marker.is_commit,
            )
        self.update(head, head.base_offset, head.max_timestamp)
        return None

    def snapshot(self) -> bytes:
        """The content of a `.snapshot` file: the state of all batches below its name's offset."""
        return encode_snapshot(
            ProducerRow(
                producer_id,
                producer.epoch,
                producer.last_sequence,
                producer.last_offset,
                producer.batches[-1].offset_delta if producer.batches else 0,
                producer.timestamp,
                producer.coordinator_epoch,
                producer.txn_first_offset,
            )
            for producer_id, producer in self.by_id.items()
        )

    def load(self, snapshot: bytes, now: int, expiration_ms: int) -> None:
        """Become what `snapshot` wrote, without producers that expired meanwhile.

        Raises `producer_snapshot.CorruptSnapshot` and stays as it was: take an older one then.
        """
        rows = decode_snapshot(snapshot)
        self.clear()
        for row in rows:
            producer = Producer(row.epoch)
            producer.timestamp = row.timestamp
            producer.coordinator_epoch = row.coordinator_epoch
            producer.txn_first_offset = row.txn_first_offset
            if row.last_offset >= 0:
                kept = KeptBatch(
                    row.last_sequence, row.last_offset, row.offset_delta, row.timestamp
                )
                producer.batches.append(kept)
                producer.next_sequence = (row.last_sequence + 1) & SEQUENCE_MASK
            if not _is_expired(producer, now, expiration_ms):
                self.by_id[row.producer_id] = producer
        begun = [(p.txn_first_offset, i) for i, p in self.by_id.items() if p.txn_first_offset >= 0]
        self.ongoing = dict(sorted(begun))
        self._find_first_unstable()

    def clear(self) -> None:
        """Forget everything, before a reload or when the log begins anew."""
        self.by_id.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self.first_unstable_offset = None

    def expire(self, now: int, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for so long; answers how many.

        One with an open transaction stays: its first offset still bounds the readers.
        """
        gone = [i for i, p in self.by_id.items() if _is_expired(p, now, expiration_ms)]
        for producer_id in gone:
            del self.by_id[producer_id]
        return len(gone)


def _retry(producer: Producer, base_sequence: int, last_sequence: int) -> Duplicate | ErrorCode:
    """A batch out of line: a retry of one of the last five, or a gap (or too old to tell)."""
    for kept in producer.batches:
        if (
            kept.last_sequence == last_sequence
            and (last_sequence - kept.offset_delta) & SEQUENCE_MASK == base_sequence
        ):
            base_offset = kept.last_offset - kept.offset_delta
            return Duplicate(base_offset, kept.last_offset, kept.timestamp)
    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def _is_expired(producer: Producer, now: int, expiration_ms: int) -> bool:
    return producer.txn_first_offset < 0 and now - producer.timestamp >= expiration_ms

"""One partition as this node holds it: what may be appended, what may be read, what is committed.

A leader assigns offsets, keeps the high watermark (the end of what every in-sync replica has) and
releases those who wait for it to move. Appending looks at a batch's head and nothing else unless
the topic's configuration asks for more (`deep`).
"""

from __future__ import annotations

from asyncio import Future
from collections import deque
from typing import NamedTuple, Protocol

from penstock.model.errors import ErrorCode
from penstock.model.ids import NodeId, TopicPartition
from penstock.model.invariants import invariant
from penstock.records.batch import (
    HEAD,
    TRANSACTIONAL,
    BatchHead,
    Fields,
    check_fields,
    patch_append_time,
    place,
    read_head,
)
from penstock.records.builder import end_txn_batch
from penstock.records.deep import RecordRules, looks_inside, rules_for, validate
from penstock.records.deep import Refused as RecordsRefused
from penstock.replica.transactions import NOT_TRANSACTIONAL, Guard, Guards, Unverified
from penstock.storage.aborted import aborted_in, end_of_slice
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.log_slice import LogSlice
from penstock.storage.producers import SEQUENCE_MASK, Duplicate

INTERNAL_TOPICS = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
)


_new = tuple.__new__  # a named tuple's own constructor is Python

BYTES_UNCOUNTED = 1 << 62
"""Told to those who wait for bytes when nobody counted them: they look for themselves."""


class Appended(NamedTuple):
    """Where a batch stands now, or stood already if it came a second time."""

    base_offset: int
    end_offset: int
    append_time: int
    log_start: int


class Refused(NamedTuple):
    """Why a batch was not appended."""

    error: ErrorCode
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()


class Readable(NamedTuple):
    """What a reader gets: a slice, or nothing yet, and how far the partition has come."""

    data: LogSlice | None
    high_watermark: int
    last_stable: int
    log_start: int


class Waiter(Protocol):
    """Somebody who is told when there is more to read."""

    def progress(self, size: int) -> None:
        """At most `size` more bytes became readable; 0 says to look for another reason."""


class SyncQueue(Protocol):
    """Makes appended batches durable, many at a time."""

    def wait_synced(self, log: Log, offset: int) -> Future[None]: ...


class Partition:
    """A partition that this node leads or follows."""

    __slots__ = (
        "_by_head",
        "_commits",
        "_rules",
        "_sync_queue",
        "_synced",
        "_waiters",
        "guards",
        "index",
        "internal",
        "isr",
        "leader",
        "leader_epoch",
        "leading",
        "log",
        "node_id",
        "offline",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(self, node_id: NodeId, log: Log, high_watermark: int, syncs: SyncQueue) -> None:
        self.node_id = node_id
        self.topic = log.topic
        self.topic_id = log.topic_id
        self.internal = log.topic in INTERNAL_TOPICS
        self.offline = False
        self.index = log.partition
        self.log = log
        self.leading = False
        self.leader: int = -1
        self.leader_epoch = -1
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        log.high_watermark = min(max(high_watermark, log.start), log.end)
        self._synced = log.high_watermark
        self._sync_queue = syncs
        log.producers.advance_high_watermark(log.high_watermark)
        self._waiters: dict[Waiter, None] = {}  # in the order in which they came
        self._commits: deque[tuple[int, Future[ErrorCode]]] = deque()
        self.guards = Guards()
        self._follow_config(log.config)

    def __str__(self) -> str:
        return str(TopicPartition(self.topic, self.index))

    # -- roles ------------------------------------------------------------------------------

    def lead(self, epoch: int, isr: tuple[int, ...], replicas: tuple[int, ...]) -> None:
        """Become, or stay, the leader in `epoch`."""
        if epoch < self.leader_epoch:
            invariant(False, f"{self}: the leader epoch went back to {epoch}")
        if epoch > self.leader_epoch or not self.leading:
            self.log.epochs.assign(epoch, self.log.end)
        self.leader = self.node_id
        self.leader_epoch = epoch
        self.isr = isr
        self.replicas = replicas
        self.leading = True
        self._take_over()

    def step_down(self, epoch: int, leader: int) -> None:
        """Stop leading; whoever waits is told to look elsewhere."""
        self.leading = False
        self.leader = leader
        self.leader_epoch = epoch
        self.guards.void_all()
        self.release_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # -- following --------------------------------------------------------------------------

    def follow(
        self, epoch: int, leader: int, isr: tuple[int, ...], replicas: tuple[int, ...]
    ) -> None:
        """Become, or stay, a follower in `epoch`; `leader` is -1 while there is none."""
        if self.leading or epoch != self.leader_epoch:
            self.step_down(epoch, leader)
        self.leader = leader
        self.isr = isr
        self.replicas = replicas

    def append_fetched(self, records: bytes | memoryview, now: int) -> int:
        """Take batches as the leader sent them; the new end. CorruptBatch or OSError if not."""
        return self.log.append_batches(records, now)

    def take_marks(self, high_watermark: int, log_start: int) -> None:
        """How far the leader has come: nothing counts as committed here that is not there."""
        log = self.log
        if log_start > log.start:
            log.advance_start(min(log_start, log.end))
        self._synced = min(high_watermark, log.end)
        self._advance(BYTES_UNCOUNTED)

    def truncate_to(self, offset: int, now: int) -> None:
        """Cut off what the leader does not have."""
        self.log.truncate_to(offset, now)

    def restart_at(self, offset: int, now: int) -> None:
        """Forget everything and begin at `offset`: the leader no longer has what comes next."""
        self.log.truncate_all(offset, now)

    def release_all(self, error: ErrorCode) -> None:
        """The partition moves, goes offline or is deleted: nobody waits here any longer."""
        commits, self._commits = self._commits, deque()
        for _, future in commits:
            if not future.done():
                future.set_result(error)
        self.release_readers()

    def release_readers(self) -> None:
        """Those who wait for more to read look once more, and answer with what they find."""
        for waiter in list(self._waiters):
            waiter.progress(0)

    def go_offline(self) -> None:
        """The directory failed: nothing is read or written here any more."""
        self.offline = True
        self.release_all(ErrorCode.KAFKA_STORAGE_ERROR)

    def reconfigure(self, config: LogConfig) -> None:
        """Take on a changed topic configuration from the next batch on."""
        self.log.config = config
        self._follow_config(config)

    def _follow_config(self, config: LogConfig) -> None:
        self._rules = _rules_of(config)
        # Whether a batch's head is all that this topic ever looks at, but for a clock gone wrong.
        self._by_head = (
            self._rules.codec < 0 and not self._rules.always and not self._rules.append_time
        )

    def use_log(self, log: Log) -> None:
        """Go on in a copy of the log that lies elsewhere, whole and durable."""
        invariant(
            log.end == self.log.end, f"{self}: the copy ends at {log.end}, not {self.log.end}"
        )
        self.log = log
        if self.leading:
            log.epochs.assign(self.leader_epoch, log.end)
        self._synced = log.end
        # The copy's watermark came with it, and may be at the end already.
        log.producers.advance_high_watermark(log.high_watermark)
        self._advance(BYTES_UNCOUNTED)

    # -- writing ----------------------------------------------------------------------------

    def append(
        self, records: memoryview, now: int, guard: Guard | None = None
    ) -> Appended | Refused | Unverified:
        """Append one batch from a producer, in its own buffer, as the leader.

        A transaction's first batch comes back as Unverified, and again with the guard from there.
        """
        if not self.leading:
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.log
        config = log.config
        head = check_fields(records, 0, len(records), config.message_max_bytes)
        if not isinstance(head, tuple):
            return Refused(head)
        _, _, _, _, _, attributes, delta, _, youngest, producer_id, epoch, sequence, _ = head
        transactional = attributes & TRANSACTIONAL
        if transactional and guard is NOT_TRANSACTIONAL:
            return Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if producer_id >= 0:
            verdict = log.producers.check(
                producer_id, epoch, sequence, (sequence + delta) & SEQUENCE_MASK, transactional != 0
            )
            if verdict is not None:
                return self._not_fresh(verdict)
        if transactional:
            unverified = self.guards.admit(log.producers, BatchHead(*head), guard)
            if unverified is not None:
                return Refused(unverified) if isinstance(unverified, ErrorCode) else unverified
        append_time = -1
        if not self._by_head or youngest - now > config.timestamp_after_max_ms:
            looked = self._look_inside(records, BatchHead(*head), now)
            if isinstance(looked, Refused):
                return looked
            records, head, append_time = looked
        return self._write(records, head, now, append_time)

    def _not_fresh(self, verdict: Duplicate | ErrorCode) -> Appended | Refused:
        if isinstance(verdict, ErrorCode):
            return Refused(verdict)
        base, last, timestamp = verdict
        return Appended(base, last + 1, timestamp, self.log.start)

    def _write(
        self, records: memoryview, head: Fields, now: int, append_time: int
    ) -> Appended | Refused:
        """Put a checked batch at the end of the log, and move on what depends on that."""
        log = self.log
        base = log.end
        epoch = self.leader_epoch
        place(records, base, epoch)
        try:
            log.append(records, head, base, epoch, now)
        except OSError as problem:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"The batch was not written: {problem}")
        end = log.end
        if end - log.recovery_point >= log.config.flush_messages:
            self._request_sync(end)
        else:
            self._synced = end
        self._advance(len(records))
        return _new(Appended, (base, end, append_time, log.start))

    def append_own(self, batch: bytearray, now: int) -> Appended | Refused:
        """Append a batch that this node made itself: a coordinator's records."""
        refused = self._may_append_own()
        if refused is not None:
            return refused
        if len(batch) > self.log.config.message_max_bytes:
            return Refused(ErrorCode.MESSAGE_TOO_LARGE)
        head: Fields = HEAD.unpack_from(batch)
        _, _, _, _, _, _, _, _, _, producer_id, epoch, _, _ = head
        if producer_id >= 0:
            producer = self.log.producers.by_id.get(producer_id)
            if producer is not None and epoch < producer.epoch:
                return Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
        return self._write(memoryview(batch), head, now, -1)

    def _may_append_own(self) -> Refused | None:
        if self.offline:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR)
        if not self.leading:
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if len(self.isr) < self.log.config.min_insync_replicas:
            return Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        return None

    # -- transactions -----------------------------------------------------------------------

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        is_commit: bool,
        now: int,
        epoch_must_rise: bool = False,
    ) -> Appended | Refused:
        """End a producer's transaction on this partition, as its coordinator decided."""
        refused = self._may_append_own()
        if refused is not None:
            return refused
        error = self.log.producers.check_marker(
            producer_id, producer_epoch, coordinator_epoch, epoch_must_rise
        )
        if error is not None:
            return Refused(error)
        self.guards.void(producer_id)
        batch = bytearray(
            end_txn_batch(
                is_commit=is_commit,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
                timestamp=now,
            )
        )
        return self._write(memoryview(batch), read_head(batch), now, -1)

    def _look_inside(
        self, records: memoryview, head: BatchHead, now: int
    ) -> tuple[memoryview, BatchHead, int] | Refused:
        """What the topic's configuration makes of a batch, or why it does not take it."""
        rules = self._rules
        if looks_inside(rules, head, now):
            outcome = validate(records, 0, head, rules, now)
            if isinstance(outcome, RecordsRefused):
                return Refused(outcome.code, outcome.message, tuple(outcome.faults))
            if outcome.batch is not None:
                records = memoryview(outcome.batch)
                head = read_head(records)
                if len(records) > self.log.config.message_max_bytes:
                    return Refused(ErrorCode.MESSAGE_TOO_LARGE)
        if not rules.append_time:
            return records, head, -1
        patch_append_time(records, 0, len(records), now)
        return records, read_head(records), now

    def await_commit(self, end_offset: int, future: Future[ErrorCode]) -> None:
        """Tell the future when all below `end_offset` is committed, or why it never will be."""
        if self.high_watermark >= end_offset:
            future.set_result(ErrorCode.NONE)
        else:
            self._commits.append((end_offset, future))

    # -- the high watermark -----------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """The end of what is committed; kept with the log, where retention heeds it."""
        return self.log.high_watermark

    def _take_over(self) -> None:
        """Commit what the log holds, when it is as durable as the topic asks.

        A batch may wait for its sync since the epoch before, or may have been written just before
        a crash: its producer tries again, and must not be told too early that it is there.
        """
        log = self.log
        if log.end - log.recovery_point >= log.config.flush_messages:
            self._request_sync(log.end)
        else:
            self._synced = log.end
        self._advance(0)

    def _request_sync(self, end: int) -> None:
        log = self.log
        synced = self._sync_queue.wait_synced(log, end)
        synced.add_done_callback(lambda done: self._on_synced(log, end, done))

    def _on_synced(self, log: Log, end: int, done: Future[None]) -> None:
        if done.cancelled():
            return
        failure = done.exception()
        if log is not self.log:
            return  # the log moved meanwhile: what became of the old one is nobody's concern
        if failure is not None:
            self.release_all(ErrorCode.KAFKA_STORAGE_ERROR)  # the directory is offline by now
        elif end > self._synced:
            self._synced = end
            self._advance(BYTES_UNCOUNTED)

    def _advance(self, size: int) -> None:
        """Move the watermark to what every in-sync replica has, `size` bytes on at the most."""
        # Alone in the in-sync set: what this node made as durable as the topic asks is committed.
        log = self.log
        high = self._synced
        if high <= log.high_watermark:
            return
        log.high_watermark = high
        producers = log.producers
        if producers.unreplicated and producers.advance_high_watermark(high):
            size = BYTES_UNCOUNTED  # a small marker makes all of its transaction readable
        commits = self._commits
        while commits and commits[0][0] <= high:
            future = commits.popleft()[1]
            if not future.done():
                future.set_result(ErrorCode.NONE)
        if self._waiters:
            for waiter in list(self._waiters):
                waiter.progress(size)

    @property
    def last_stable(self) -> int:
        """The end of what a reader of committed transactions may see."""
        log = self.log
        first = log.producers.first_unstable_offset
        if first is None:
            return log.high_watermark
        # Records may be deleted from under a transaction that is open.
        return min(max(first, log.start), log.high_watermark)

    # -- reading ----------------------------------------------------------------------------

    def check_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Whether a client's view of who leads is ours; -1 stands for no view."""
        if not self.leading:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if current_leader_epoch in (-1, self.leader_epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def divergence(self, epoch: int, offset: int) -> tuple[int, int] | ErrorCode | None:
        """Where a reader's log parted from this one, as (epoch, end offset), if it did.

        A reader that speaks of epochs which this log never knew has to look for its place anew.
        """
        known, end = self.log.epochs.end_offset_for(epoch, self.log.end)
        if known < 0:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if known < epoch or end < offset:
            return known, end
        return None

    def aborted(self, offset: int, read: Readable) -> list[tuple[int, int]]:
        """Producer id and first offset of each aborted transaction in what was read at `offset`."""
        log = self.log
        if read.data is None or not log.has_aborted:
            return []
        end = min(read.last_stable, end_of_slice(log, offset, read.data))
        return [(txn.producer_id, txn.first_offset) for txn in aborted_in(log, offset, end)]

    def read(
        self,
        offset: int,
        size_max: int,
        whole_first: bool,
        committed_only: bool,
        uncommitted_too: bool = False,
    ) -> Readable | ErrorCode:
        """What a consumer may read from `offset` on; `uncommitted_too` is for tools."""
        log = self.log
        high = self.high_watermark
        stable = self.last_stable
        ceiling = log.end if uncommitted_too else stable if committed_only else high
        start = log.start
        if offset < start or offset > log.end:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if offset >= ceiling:
            return Readable(None, high, stable, start)
        try:
            found = log.read(offset, size_max, ceiling, whole_first)
        except OSError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return Readable(found, high, stable, start)

    def park(self, waiter: Waiter) -> None:
        """Tell `waiter` about progress until it is removed."""
        self._waiters[waiter] = None

    def unpark(self, waiter: Waiter) -> None:
        """Stop telling."""
        self._waiters.pop(waiter, None)


def _rules_of(config: LogConfig) -> RecordRules:
    return rules_for(
        compacted=config.cleanup_compact,
        compression=config.compression_type,
        levels={
            "gzip": config.gzip_level,
            "lz4": config.lz4_level,
            "zstd": config.zstd_level,
        },
        append_time=config.timestamp_append,
        before_max_ms=config.timestamp_before_max_ms,
        after_max_ms=config.timestamp_after_max_ms,
    )

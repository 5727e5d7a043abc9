"""One partition as this node holds it: what may be appended, what may be read, what is committed.

A leader assigns offsets, keeps the high watermark (the end of what every in-sync replica has) and
releases those who wait for it to move. Appending looks at a batch's head and nothing else unless
the topic's configuration asks for more (`deep`).
"""

from __future__ import annotations

from asyncio import Future

from penstock.model.errors import ErrorCode
from penstock.model.ids import NodeId, TopicPartition
from penstock.model.invariants import invariant
from penstock.records.batch import (
    HEAD,
    TRANSACTIONAL,
    BatchHead,
    Fields,
    check_fields,
    place,
    read_head,
)
from penstock.records.builder import end_txn_batch
from penstock.replica.delay_parking import append_parking
from penstock.replica.in_sync import UNBOUNDED, UNKNOWN, InSync, Peers
from penstock.replica.inspection import by_head_only, inspect, rules_of
from penstock.replica.outcomes import Appended as Appended
from penstock.replica.outcomes import Readable as Readable
from penstock.replica.outcomes import Refused as Refused
from penstock.replica.transactions import NOT_TRANSACTIONAL, Guard, Guards, Unverified
from penstock.replica.waiting import BYTES_UNCOUNTED as BYTES_UNCOUNTED
from penstock.replica.waiting import Audience, Awaiting, SyncQueue, Waits
from penstock.storage.aborted import aborted_in, end_of_slice
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.producers import SEQUENCE_MASK, Duplicate

INTERNAL_TOPICS = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
)


_new = tuple.__new__  # a named tuple's own constructor is Python


class Partition:
    """A partition that this node leads or follows."""

    __slots__ = (
        "_peers",
        "_reign",
        "_replicated",
        "_rules",
        "_start_told",
        "_sync_queue",
        "audience",
        "by_head",
        "guards",
        "in_sync",
        "index",
        "internal",
        "isr",
        "leader",
        "leader_epoch",
        "leader_start",
        "leading",
        "log",
        "node_id",
        "offline",
        "replicas",
        "synced",
        "topic",
        "topic_id",
        "under_min",
        "waits",
    )

    def __init__(
        self,
        node_id: NodeId,
        log: Log,
        high_watermark: int,
        syncs: SyncQueue,
        peers: Peers | None = None,
    ) -> None:
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
        self.leader_start = 0
        """The end of the log when this node began to lead."""
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        self.under_min = False
        """Whether the in-sync set is smaller than the topic wants it for acks=all."""
        log.high_watermark = min(max(high_watermark, log.start), log.end)
        self.synced = log.high_watermark
        """The end of what this node has made as durable as the topic asks."""
        self._start_told = log.start
        self._reign = 0  # counts the times that this node ceased to lead
        self._replicated = UNBOUNDED  # the end of what all others in sync have
        self.in_sync: InSync | None = None
        """The followers, while this node leads and is not alone."""
        self._peers = Peers() if peers is None else peers
        self._sync_queue = syncs
        log.producers.advance_high_watermark(log.high_watermark)
        self.audience = Audience()
        self.waits = Waits()
        self.guards = Guards()
        self._follow_config(log.config)

    def __str__(self) -> str:
        return str(TopicPartition(self.topic, self.index))

    # -- roles ------------------------------------------------------------------------------

    def lead(
        self,
        epoch: int,
        isr: tuple[int, ...],
        replicas: tuple[int, ...],
        *,
        partition_epoch: int = 0,
        recovering: bool = False,
        now: int = 0,
    ) -> None:
        """Become, or stay, the leader in `epoch`; `now` is of a clock that never jumps."""
        if epoch < self.leader_epoch:
            invariant(False, f"{self}: the leader epoch went back to {epoch}")
        known = self.in_sync
        fresh = epoch > self.leader_epoch or not self.leading
        if not fresh and known is not None and partition_epoch <= known.partition_epoch:
            return  # what this leader proposed is true before the metadata shows it
        if fresh:
            self.log.epochs.assign(epoch, self.log.end)
            self.leader_start = self.log.end
        self.leader = self.node_id
        self.leader_epoch = epoch
        self.leading = True
        if len(replicas) == 1 and not recovering:
            self.in_sync = None  # alone, as most partitions of a single node are
        elif fresh or known is None:
            self.in_sync = InSync(
                self.node_id,
                self._peers,
                leader_epoch=epoch,
                leader_start=self.leader_start,
                partition_epoch=partition_epoch,
                isr=isr,
                replicas=replicas,
                recovering=recovering,
                now=now,
            )
        else:
            known.follow_metadata(partition_epoch, isr, replicas, recovering)
        self._take_isr(isr, replicas)
        self._recount(now)
        if fresh:
            self._take_over()
            self.release_readers()  # who names the epoch before has to hear of this one
        else:
            self._advance(BYTES_UNCOUNTED)

    def step_down(self, epoch: int, leader: int) -> None:
        """Stop leading; whoever waits is told to look elsewhere."""
        self.leading = False
        self._reign += 1
        self.leader = leader
        self.leader_epoch = epoch
        self.in_sync = None
        self._replicated = UNBOUNDED
        self.synced = self.log.high_watermark
        self.guards.void_all()
        self.release_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _take_isr(self, isr: tuple[int, ...], replicas: tuple[int, ...]) -> None:
        self.isr = isr
        self.replicas = replicas
        # Nobody can ask for more replicas than there are.
        wanted = min(self.log.config.min_insync_replicas, len(replicas))
        self.under_min = len(isr) < wanted

    # -- followers, as their leader sees them -------------------------------------------------

    # Who tells the leader of them is in `replica.leading`.

    def take_in_sync(self) -> None:
        """The controller has answered who is in sync."""
        if self.in_sync is not None:
            self._take_isr(self.in_sync.isr, self.replicas)

    def count_in_sync(self, now: int) -> None:
        """Followers may have come further, or others may count: see what is committed."""
        in_sync = self.in_sync
        if in_sync is not None:
            self._recount(now)
            self._advance(BYTES_UNCOUNTED)
            if self.waits.starts:
                self.waits.release_starts(in_sync.start_of_all(self.log.start))

    def _recount(self, now: int) -> None:
        in_sync = self.in_sync
        if in_sync is None:
            self._replicated = UNBOUNDED
        elif self.under_min:
            self._replicated = UNKNOWN  # nothing is committed by fewer than the topic wants
        else:
            self._replicated = in_sync.end_of_all(self.log.end, now)

    # -- following --------------------------------------------------------------------------

    def follow(
        self, epoch: int, leader: int, isr: tuple[int, ...], replicas: tuple[int, ...]
    ) -> None:
        """Become, or stay, a follower in `epoch`; `leader` is -1 while there is none."""
        if self.leading or epoch != self.leader_epoch:
            self.step_down(epoch, leader)
        self.leader = leader
        self._take_isr(isr, replicas)

    def append_fetched(self, records: bytes | memoryview, now: int) -> int:
        """Take batches as the leader sent them; the new end. CorruptBatch or OSError if not."""
        return self.log.append_batches(records, now, self.leader_epoch)

    def take_marks(self, high_watermark: int, log_start: int) -> None:
        """How far the leader has come: nothing counts as committed here that is not there."""
        if self.leading:
            return
        log = self.log
        if log_start > log.start:
            log.advance_start(min(log_start, log.end))
        self.synced = min(high_watermark, log.end)
        self._advance(BYTES_UNCOUNTED)

    def truncate_to(self, offset: int, now: int) -> None:
        """Cut off what the leader does not have."""
        self.log.truncate_to(offset, now)
        self.synced = min(self.synced, self.log.end)

    def restart_at(self, offset: int, now: int) -> None:
        """Forget everything and begin at `offset`: the leader no longer has what comes next."""
        self.log.truncate_all(offset, now)
        self.synced = self.log.high_watermark

    def release_all(self, error: ErrorCode) -> None:
        """The partition moves, goes offline or is deleted: nobody waits here any longer."""
        self.waits.release_all(error)
        self.release_readers()

    def release_readers(self) -> None:
        """Those who wait for more to read look once more, and answer with what they find."""
        self.audience.tell_all(0)

    def go_offline(self) -> None:
        """The directory failed: nothing is read or written here any more."""
        self.offline = True
        self.release_all(ErrorCode.KAFKA_STORAGE_ERROR)

    def reconfigure(self, config: LogConfig) -> None:
        """Take on a changed topic configuration from the next batch on."""
        self.log.config = config
        self._follow_config(config)
        self.count_in_sync(0)  # as if no time had passed: whoever kept up still does

    def _follow_config(self, config: LogConfig) -> None:
        self._rules = rules_of(config)
        self.by_head = by_head_only(self._rules) and not config.delay_enable
        self._take_isr(self.isr, self.replicas)

    def use_log(self, log: Log) -> None:
        """Go on in a copy of the log that lies elsewhere, whole and durable."""
        invariant(
            log.end == self.log.end, f"{self}: the copy ends at {log.end}, not {self.log.end}"
        )
        self.log = log
        if self.leading:
            log.epochs.assign(self.leader_epoch, log.end)
        self._hold(log.end if self.leading else log.high_watermark)
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
        if not self.by_head or youngest - now > config.timestamp_after_max_ms:
            looked = inspect(records, BatchHead(*head), self._rules, config.message_max_bytes, now)
            if isinstance(looked, Refused):
                return looked
            records, head, append_time = looked
            if config.delay_enable:
                parked = append_parking(self, records, head, self._rules, now, append_time)
                if parked is not None:
                    return parked
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
        self.count_appended(len(records))
        return _new(Appended, (base, log.end, append_time, log.start))

    def count_appended(self, size: int) -> None:
        """Something of `size` bytes was put at the log's end: see how durable it has to be, and
        move on what depends on it."""
        log = self.log
        end = log.end
        if end - log.recovery_point >= log.config.flush_messages:
            self._request_sync(end)
        else:
            self.synced = end
            if self.waits.syncs:  # a sync that has ended, though nobody has heard of it yet
                self.waits.release_syncs(end)
        self._advance(size)
        if self.audience.followers:
            self.audience.tell_followers(size)

    def append_together(
        self, batches: list[bytearray], now: int, append_time: int = -1
    ) -> Appended | Refused:
        """Append batches that count only together, the first of them about delayed records; the
        answer is about the last one."""
        log = self.log
        base, heads = log.end, []
        for batch in batches:
            place(batch, base, self.leader_epoch)
            heads.append(HEAD.unpack_from(batch))
            base += heads[-1][6] + 1
        view = memoryview(b"".join(batches))
        try:
            log.append_together(view, heads, now)
        except OSError as problem:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"Not written: {problem}")
        self.count_appended(len(view))
        return Appended(heads[-1][0], log.end, append_time, log.start)

    def append_own(self, batch: bytearray, now: int) -> Appended | Refused:
        """Append a batch that this node made itself: a coordinator's records."""
        refused = self.may_append_own()
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

    def may_append_own(self) -> Refused | None:
        """Why this node may not append batches of its own now, if it may not."""
        if self.offline:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR)
        if not self.leading:
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.under_min:
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
        refused = self.may_append_own()
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

    def await_commit(self, end_offset: int, future: Awaiting) -> None:
        """Tell the future when all below `end_offset` is committed, or why it never will be."""
        if self.high_watermark >= end_offset:
            future.set_result(ErrorCode.NONE)
        else:
            self.waits.await_commit(end_offset, future)

    # -- deleting ---------------------------------------------------------------------------

    def delete_to(self, offset: int) -> None:
        """Let the log begin at `offset`; followers hear of it soon."""
        if offset > self.log.start:
            self.log.advance_start(offset)
            self.tell_start()

    def tell_start(self) -> None:
        """Let followers know where the log begins, if that has changed."""
        if self._start_told != self.log.start:
            self._start_told = self.log.start
            self.audience.tell_marks()

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
            self._hold(log.end)
        self._advance(0)

    def _hold(self, end: int) -> None:
        """All below `end` is as durable here as the topic asks."""
        self.synced = end
        self.waits.release_syncs(end)

    def _request_sync(self, end: int) -> None:
        log = self.log
        reign = self._reign
        synced = self._sync_queue.wait_synced(log, end)
        synced.add_done_callback(lambda done: self._on_synced(log, reign, end, done))

    def _on_synced(self, log: Log, reign: int, end: int, done: Future[None]) -> None:
        if done.cancelled():
            return
        failure = done.exception()
        if log is not self.log:
            return  # the log moved meanwhile: what became of the old one is nobody's concern
        if failure is None and reign != self._reign:
            return  # another leader may have cut off since what was synced here
        if failure is not None:
            self.release_all(ErrorCode.KAFKA_STORAGE_ERROR)  # the directory is offline by now
        elif end > self.synced:
            self._hold(end)
            self._advance(BYTES_UNCOUNTED)

    def _advance(self, size: int) -> None:
        """Move the watermark to what every in-sync replica has, `size` bytes on at the most."""
        log = self.log
        high = self.synced
        if high > self._replicated:
            high = self._replicated
        if high <= log.high_watermark:
            return
        log.high_watermark = high
        producers = log.producers
        if producers.unreplicated and producers.advance_high_watermark(high):
            size = BYTES_UNCOUNTED  # a small marker makes all of its transaction readable
        if self.waits.commits:
            self.waits.release_commits(high)
        audience = self.audience
        if audience.readers:
            audience.tell_readers(size)
        if audience.followers:
            audience.tell_marks()

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

    def check_epoch(self, current_leader_epoch: int, leader_only: bool = True) -> ErrorCode:
        """Whether a client's view of who leads is ours; -1 stands for no view."""
        if current_leader_epoch not in (-1, self.leader_epoch):
            if current_leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if leader_only and not self.leading:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def divergence(self, epoch: int, offset: int) -> tuple[int, int] | ErrorCode | None:
        """Where a reader's log parted from this one, as (epoch, end offset), if it did.

        A reader that speaks of epochs which this log never knew has to look for its place anew.
        """
        known, end = self.log.epochs.end_offset_for(epoch, self.log.end)
        if known < 0 or offset < self.log.start:
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

"""A follower's fetch: how far it is counts before it reads, and it reads what is not committed.

A follower may hear of a new leader, or of a new topic, before the leader itself. An error would
make it pause for a second, and whoever waits for it to have his batch would wait with it. So what
may be right in a moment is not answered at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.fetch import PartitionData
from penstock.replica import leading
from penstock.replica.in_sync import Proposal
from penstock.server.fetch_reading import Reading
from penstock.server.follower_watch import FollowerWatch

if TYPE_CHECKING:
    from penstock.protocol.generated.fetch import FetchRequest, FetchResponse
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.fetch_sessions import FetchPlan, Key, Wanted

_EARLY = (
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""What a leader says to a follower that knows more than it does."""

_QUIET = PartitionData(partition_index=-1, records=b"")
"""Stands for a partition of which the follower has everything, and knows it."""


class FollowerReading(Reading):
    """What is new for a follower, among the partitions of its session."""

    __slots__ = ("_broker_epoch", "_counted", "_early", "has_news", "watch")

    def __init__(
        self,
        broker: Broker,
        call: Call,
        request: FetchRequest,
        plan: FetchPlan,
        replica_id: int,
        broker_epoch: int,
    ) -> None:
        super().__init__(broker, call, request, plan, replica_id)
        self._broker_epoch = broker_epoch
        self._leader_only = True
        self._rack = ""
        self._counted: set[Key] = set()
        self._early: dict[Key, None] = {}
        self.has_news = False
        """Whether the leader has come further than the follower was last told."""
        session = plan.session
        kept = None if session is None else session.watch
        self.watch = FollowerWatch(replica_id) if kept is None else kept
        self.watch.fetched_at = broker.clock.monotonic()
        if kept is None:
            self.watch.change(plan.by_key, ())

    def collect(self) -> None:
        """Look at the partitions that may have something new."""
        self.size = 0
        self.answers = []
        self._early.clear()
        known = self.plan.by_key
        for key in list(self.watch.ready):
            wanted = known[key]
            answer = self._look(wanted)
            if answer is _QUIET:
                del self.watch.ready[key]
            else:
                self.answers.append((wanted, answer))

    def _look(self, wanted: Wanted) -> PartitionData:
        partition = self._hosted.get(wanted.key)
        if partition is not None:
            self.watch.sit(wanted.key, partition)
        return super()._look(wanted)

    @property
    def is_early(self) -> bool:
        """Whether it speaks of what this node is about to hear."""
        return bool(self._early)

    def _failed(self, wanted: Wanted, error: ErrorCode) -> PartitionData:
        if error not in _EARLY:
            return super()._failed(wanted, error)
        self._early[wanted.key] = None
        urgent = self.urgent
        answer = super()._failed(wanted, error)
        self.urgent = urgent
        return answer

    def _diverged(self, wanted: Wanted, partition: Partition) -> PartitionData | None:
        if self._replica_id not in partition.replicas:
            # Who names the epoch may know of a change that has not come here yet.
            named = wanted.leader_epoch >= 0
            return self._failed(
                wanted,
                ErrorCode.UNKNOWN_LEADER_EPOCH if named else ErrorCode.NOT_LEADER_OR_FOLLOWER,
            )
        return super()._diverged(wanted, partition)

    def _read(self, wanted: Wanted, partition: Partition) -> PartitionData:
        # Who is not in sync may have become able to join since its fetch came.
        if wanted.key not in self._counted or self._replica_id not in partition.isr:
            error = self._count(wanted, partition)
            if error:
                return self._failed(wanted, error)
            self._counted.add(wanted.key)
        log = partition.log
        if wanted.high_watermark != log.high_watermark or wanted.log_start != log.start:
            self.has_news = True
        elif wanted.fetch_offset == log.end and self.plan.incremental:
            return _QUIET
        size = self.size
        answer = super()._read(wanted, partition)
        if answer.records and self._is_held_back(partition):
            answer.records = b""
            self.size = size
        return answer

    def _count(self, wanted: Wanted, partition: Partition) -> ErrorCode:
        """Note how far the follower is, before it reads: what it hears then is up to date."""
        log = partition.log
        if not log.start <= wanted.fetch_offset <= log.end:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        outcome = leading.fetched(
            partition,
            self._replica_id,
            self._broker_epoch,
            wanted.fetch_offset,
            wanted.follower_start,
            self.watch.fetched_at,
        )
        if isinstance(outcome, ErrorCode):
            return outcome
        if isinstance(outcome, Proposal):
            self.broker.isr_changes.submit(partition, outcome)
        return ErrorCode.NONE

    def _is_held_back(self, partition: Partition) -> bool:
        """Whether a follower that is catching up has had more than its share for now."""
        throttle = self.broker.throttles.leader
        return (
            throttle.active
            and self._replica_id not in partition.isr
            and throttle.concerns(partition.topic, partition.index)
            and throttle.exceeded(self.broker.clock.monotonic())
        )

    def response(self) -> FetchResponse:
        """What was found. Who has everything now, and knows it, is quiet until more comes."""
        ready = self.watch.ready
        for wanted, answer in self.answers:
            partition = self._hosted.get(wanted.key)
            if (
                not answer.error_code
                and answer.diverging_epoch is None
                and partition is not None
                and wanted.fetch_offset == partition.log.end
            ):
                ready.pop(wanted.key, None)
        if self.broker.throttles.leader.active:
            self._count_throttled()
        if self.plan.session is None:
            self.watch.close()
        if self.plan.incremental and self.size:
            # Not a word about what is early: the next fetch finds it again.
            self.answers = [each for each in self.answers if each[0].key not in self._early]
        return super().response()

    def _count_throttled(self) -> None:
        """What goes to replicas that are listed counts, even if they are in sync by now."""
        throttle = self.broker.throttles.leader
        size = 0
        for wanted, answer in self.answers:
            partition = self._hosted.get(wanted.key)
            if partition is not None and throttle.concerns(partition.topic, partition.index):
                size += getattr(answer.records, "size", 0)
        if size:
            throttle.record(size, self.broker.clock.monotonic())

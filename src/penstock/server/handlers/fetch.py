"""Fetch, versions 4 to 18.

Sessions from version 7, leader epochs from 9, topic ids from 13, replica state from 15. A fetch
that finds fewer than `min_bytes` parks until more is committed or `max_wait_ms` has passed. A
follower's fetch tells how far it is, reads what is not committed yet, and parks until there is
more of that. A consumer may be sent to a replica in its own rack, and may read from any replica,
from version 11. The first batch comes whole even if it is larger than every limit, or its reader
would never move. Answers carry slices of files: the listener sends them without reading them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from penstock.replica import leading
from penstock.replica.in_sync import Proposal
from penstock.server.closest_replica import NOBODY, closest_replica
from penstock.server.fetch_sessions import FetchPlan, Wanted
from penstock.server.leaders import point_reader_at_leader
from penstock.server.parked_fetches import ParkedFetch, ParkedFollower
from penstock.storage.txn_index import CorruptTxnIndex

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping

    from penstock.protocol.generated.fetch import FetchRequest
    from penstock.replica.partition import Partition, Readable
    from penstock.server.broker import Broker
    from penstock.server.call import Call

BY_ID_FROM = 13
FROM_ANY_REPLICA_FROM = 11
READ_COMMITTED = 1
CONSUMER = -1


def handle(
    broker: Broker, call: Call, request: FetchRequest
) -> FetchResponse | Awaitable[FetchResponse]:
    """Answer at once if there is enough to say, or park."""
    plan = broker.fetch_sessions.begin(request, call.version, broker.clock.monotonic())
    if isinstance(plan, ErrorCode):
        return FetchResponse(error_code=plan)
    reading = _Reading(broker, call, request, plan)
    reading.collect()
    if reading.urgent or reading.size >= request.min_bytes or request.max_wait_ms <= 0:
        return reading.response()
    limits = broker.limits
    if (
        broker.parked_fetches >= limits.parked_fetches_max
        or broker.parked_partitions + len(plan.wanted) > limits.parked_partitions_max
    ):
        return reading.response()  # an empty answer is legal, an endless queue is not
    if reading.follower:
        return ParkedFollower(
            reading, request.min_bytes, request.max_wait_ms, reading.has_news
        ).answer
    return ParkedFetch(reading, request.min_bytes, request.max_wait_ms).answer


class _Reading:
    """One pass over the partitions that a fetch asks for."""

    __slots__ = (
        "_hosted",
        "_leader_only",
        "_looked",
        "_now",
        "_rack",
        "answers",
        "broker",
        "call",
        "committed_only",
        "follower",
        "has_news",
        "plan",
        "replica_epoch",
        "replica_id",
        "size",
        "size_max",
        "urgent",
    )

    def __init__(self, broker: Broker, call: Call, request: FetchRequest, plan: FetchPlan) -> None:
        self.broker = broker
        self.plan = plan
        self.call = call
        self._hosted: Mapping[Any, Partition] = (
            broker.hosted_by_id if call.version >= BY_ID_FROM else broker.hosted
        )
        self.committed_only = request.isolation_level == READ_COMMITTED
        self.size_max = min(request.max_bytes, broker.limits.fetch_bytes_max)
        state = request.replica_state
        self.replica_id = request.replica_id if state is None else state.replica_id
        self.replica_epoch = -1 if state is None else state.replica_epoch
        self.follower = self.replica_id >= 0
        self._leader_only = self.follower or (
            self.replica_id == CONSUMER and call.version < FROM_ANY_REPLICA_FROM
        )
        self._rack = "" if self.follower or not broker.rack_aware else request.rack_id
        self._looked = False
        self._now = broker.clock.monotonic() if self.follower else 0
        self.size = 0
        self.has_news = False
        """Whether a follower's leader has come further than the follower was last told."""
        self.urgent = not plan.wanted
        self.answers: list[tuple[Wanted, PartitionData]] = []

    def collect(self) -> None:
        """Look at every partition once."""
        self.size = 0
        self.answers = []
        for wanted in self.plan.wanted:
            self.answers.append((wanted, self._read(wanted)))
        self._looked = True

    def partitions(self) -> Iterator[Partition]:
        """Those of the partitions that are hosted here."""
        for wanted in self.plan.wanted:
            partition = self._hosted.get(wanted.key)
            if partition is not None:
                yield partition

    def partition(self, wanted: Wanted) -> Partition | None:
        """The partition as hosted here, if it is."""
        return self._hosted.get(wanted.key)

    def _read(self, wanted: Wanted) -> PartitionData:
        partition = self.partition(wanted)
        if partition is None:
            answer = self._failed(wanted, self.broker.why_not_hosted(*wanted.key))
            answer.aborted_transactions = []  # in Kafka not null here, for whatever reason
            return answer
        if partition.offline:
            return self._failed(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        error = partition.check_epoch(wanted.leader_epoch, self._leader_only)
        if error:
            return self._failed(wanted, error)
        if self.follower and self.replica_id not in partition.replicas:
            # Who names the epoch may know of a change that has not come here yet.
            named = wanted.leader_epoch >= 0
            return self._failed(
                wanted,
                ErrorCode.UNKNOWN_LEADER_EPOCH if named else ErrorCode.NOT_LEADER_OR_FOLLOWER,
            )
        if self._rack and partition.leading:
            elsewhere = closest_replica(
                self.broker, partition, wanted.fetch_offset, self._rack, self.call.listener_name
            )
            if elsewhere != NOBODY:
                return self._elsewhere(wanted, partition, elsewhere)
        if wanted.last_fetched_epoch >= 0:
            diverged = partition.divergence(wanted.last_fetched_epoch, wanted.fetch_offset)
            if isinstance(diverged, ErrorCode):
                return self._failed(wanted, diverged)
            if diverged is not None:
                return self._diverged(wanted, partition, diverged)
        if self.follower and not self._looked:
            error = self._record(wanted, partition)
            if error:
                return self._failed(wanted, error)
        read = partition.read(
            wanted.fetch_offset,
            min(wanted.size_max, self.size_max - self.size),
            self.size == 0,
            self.committed_only,
            self.replica_id != CONSUMER,
        )
        if isinstance(read, ErrorCode):
            return self._failed(wanted, read)
        answer = PartitionData(
            partition_index=wanted.key[1],
            high_watermark=read.high_watermark,
            last_stable_offset=read.last_stable,
            log_start_offset=read.log_start,
            aborted_transactions=None,
            records=b"",
        )
        if self.committed_only:
            try:
                answer.aborted_transactions = _aborted(partition, wanted.fetch_offset, read)
            except (OSError, CorruptTxnIndex):
                # Without the index, what was aborted could be taken for committed.
                return self._failed(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        if read.data is not None and not (self.follower and self._is_held_back(partition)):
            answer.records = read.data
            self.size += read.data.size
        return answer

    def _record(self, wanted: Wanted, partition: Partition) -> ErrorCode:
        """Note how far the follower is, before it reads: what it hears then is up to date."""
        log = partition.log
        if not log.start <= wanted.fetch_offset <= log.end:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        outcome = leading.fetched(
            partition,
            self.replica_id,
            self.replica_epoch,
            wanted.fetch_offset,
            wanted.follower_start,
            self._now,
        )
        if isinstance(outcome, ErrorCode):
            return outcome
        if isinstance(outcome, Proposal):
            self.broker.isr_changes.submit(partition, outcome)
        if wanted.high_watermark != log.high_watermark or wanted.log_start != log.start:
            self.has_news = True
        return ErrorCode.NONE

    def _is_held_back(self, partition: Partition) -> bool:
        """Whether a follower that is catching up has had more than its share for now."""
        throttle = self.broker.throttles.leader
        return (
            throttle.active
            and self.replica_id not in partition.isr
            and throttle.concerns(partition.topic, partition.index)
            and throttle.exceeded(self.broker.clock.monotonic())
        )

    def _elsewhere(self, wanted: Wanted, partition: Partition, node_id: int) -> PartitionData:
        self.urgent = True
        return PartitionData(
            partition_index=wanted.key[1],
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable,
            log_start_offset=partition.log.start,
            aborted_transactions=None,
            preferred_read_replica=node_id,
            records=b"",
        )

    def _failed(self, wanted: Wanted, error: ErrorCode) -> PartitionData:
        self.urgent = True
        return PartitionData(
            partition_index=wanted.key[1],
            error_code=error,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )

    def _diverged(
        self, wanted: Wanted, partition: Partition, diverged: tuple[int, int]
    ) -> PartitionData:
        self.urgent = True
        answer = PartitionData(
            partition_index=wanted.key[1],
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable,
            log_start_offset=partition.log.start,
            aborted_transactions=None,
            records=b"",
        )
        answer.diverging_epoch = EpochEndOffset(epoch=diverged[0], end_offset=diverged[1])
        return answer

    def response(self) -> FetchResponse:
        """What was found; in a session's later fetches, only what changed."""
        response = FetchResponse(session_id=self.plan.session_id)
        session = self.plan.session
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for wanted, answer in self.answers:
            if session is not None and not _remember(wanted, answer) and self.plan.incremental:
                continue
            name = wanted.key[0]
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = _topic(name)
                response.responses.append(topic)
            topic.partitions.append(answer)
            if session is not None and answer.records and wanted.key in session.wanted:
                session.send_to_back(wanted.key)
        if self.urgent:
            point_reader_at_leader(self.broker, self.call, response)
        if self.follower and self.broker.throttles.leader.active:
            self._count_throttled()
        return response

    def _count_throttled(self) -> None:
        """What goes to replicas that are listed counts, even if they are in sync by now."""
        throttle = self.broker.throttles.leader
        size = 0
        for wanted, answer in self.answers:
            partition = self.partition(wanted)
            if partition is not None and throttle.concerns(partition.topic, partition.index):
                size += getattr(answer.records, "size", 0)
        if size:
            throttle.record(size, self.broker.clock.monotonic())


def _aborted(partition: Partition, offset: int, read: Readable) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=producer_id, first_offset=first)
        for producer_id, first in partition.aborted(offset, read)
    ]


def _topic(name: str | bytes) -> FetchableTopicResponse:
    if isinstance(name, str):
        return FetchableTopicResponse(topic=name, partitions=[])
    return FetchableTopicResponse(topic_id=name, partitions=[])


def _remember(wanted: Wanted, answer: PartitionData) -> bool:
    """Note what the session is told; True if it is anything new."""
    if answer.error_code:
        # Forget the marks: the next good answer is news, whatever they were before.
        wanted.high_watermark = wanted.log_start = -1
        return True
    news = (
        bool(answer.records)
        or answer.high_watermark != wanted.high_watermark
        or answer.log_start_offset != wanted.log_start
        or answer.diverging_epoch is not None
        or answer.preferred_read_replica >= 0
    )
    wanted.high_watermark = answer.high_watermark
    wanted.log_start = answer.log_start_offset
    return news

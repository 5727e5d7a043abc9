"""What a fetch finds when it looks at its partitions, and how that is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from penstock.server.closest_replica import NOBODY, closest_replica
from penstock.server.leaders import point_reader_at_leader
from penstock.server.rights import may_topic
from penstock.storage.txn_index import CorruptTxnIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.protocol.generated.fetch import FetchRequest
    from penstock.replica.outcomes import Readable
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.fetch_sessions import FetchPlan, Wanted

BY_ID_FROM = 13
FROM_ANY_REPLICA_FROM = 11
READ_COMMITTED = 1
CONSUMER = -1

_NOT_NULL: list[AbortedTransaction] = []
"""The aborted transactions where a fetch fails before it comes to a log: in Kafka not null there,
for whatever reason."""


class Reading:
    """A consumer's fetch, or a tool's that looks at one replica after the other (replica id -2)."""

    __slots__ = (
        "_hosted",
        "_leader_only",
        "_rack",
        "_replica_id",
        "_uncommitted_too",
        "answers",
        "broker",
        "call",
        "committed_only",
        "plan",
        "size",
        "size_max",
        "urgent",
    )

    def __init__(
        self, broker: Broker, call: Call, request: FetchRequest, plan: FetchPlan, replica_id: int
    ) -> None:
        self.broker = broker
        self.plan = plan
        self.call = call
        self._hosted: Mapping[Any, Partition] = (
            broker.hosted_by_id if call.version >= BY_ID_FROM else broker.hosted
        )
        self.committed_only = request.isolation_level == READ_COMMITTED
        self.size_max = min(request.max_bytes, broker.limits.fetch_bytes_max)
        if call.account is not None:
            self.size_max = min(self.size_max, call.account.fetch_bytes_max(call))
        self._replica_id = replica_id
        self._uncommitted_too = replica_id != CONSUMER
        self._leader_only = replica_id == CONSUMER and call.version < FROM_ANY_REPLICA_FROM
        self._rack = request.rack_id if broker.rack_aware else ""
        self.size = 0
        self.urgent = not plan.by_key
        """Whether the answer must not wait for more bytes."""
        self.answers: list[tuple[Wanted, PartitionData]] = []

    def collect(self) -> None:
        """Look at every partition once."""
        self.size = 0
        self.answers = []
        look = self._look if self.broker.authorizer is None else self._look_if_allowed
        for wanted in self.plan.by_key.values():
            self.answers.append((wanted, look(wanted)))

    def partitions(self) -> Iterator[Partition]:
        """Those of the partitions that are hosted here."""
        for wanted in self.plan.by_key.values():
            partition = self._hosted.get(wanted.key)
            if partition is not None:
                yield partition

    # -- rights ---------------------------------------------------------------------------------

    def _look_if_allowed(self, wanted: Wanted) -> PartitionData:
        """Rights are looked at whenever a fetch looks: those that are withdrawn while it is parked
        are gone when it looks again."""
        partition = self._hosted.get(wanted.key)
        gate = self.call.connection.gate
        if partition is not None and gate is not None and gate.may_read(partition.topic):
            return self._look(wanted)
        # What is hosted may be gone from the metadata, and is not open to all because of it.
        if self._may_read(wanted.key[0] if partition is None else partition.topic):
            return self._look(wanted)
        return self._failed_early(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _may_read(self, topic: str | bytes) -> bool:
        if isinstance(topic, bytes):
            found = self.broker.image.topics.by_id.get(topic)
            if found is None:
                return True  # to be told that there is no such id gives nothing away
            topic = found.name
        return may_topic(self.broker, self.call, Operation.READ, topic)

    # -- one partition --------------------------------------------------------------------------

    def _look(self, wanted: Wanted) -> PartitionData:
        partition = self._hosted.get(wanted.key)
        if partition is None:
            return self._failed_early(wanted, self.broker.why_not_hosted(*wanted.key))
        if partition.offline:
            return self._failed(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        error = partition.check_epoch(wanted.leader_epoch, self._leader_only)
        if error:
            return self._failed(wanted, error)
        if self._rack and partition.leading:
            elsewhere = closest_replica(
                self.broker, partition, wanted.fetch_offset, self._rack, self.call.listener_name
            )
            if elsewhere != NOBODY:
                return self._elsewhere(wanted, partition, elsewhere)
        return self._diverged(wanted, partition) or self._read(wanted, partition)

    def _diverged(self, wanted: Wanted, partition: Partition) -> PartitionData | None:
        """The answer to a reader whose log is not a part of this one, if it is not."""
        if wanted.last_fetched_epoch < 0:
            return None
        diverged = partition.divergence(wanted.last_fetched_epoch, wanted.fetch_offset)
        if diverged is None:
            return None
        if isinstance(diverged, ErrorCode):
            return self._failed(wanted, diverged)
        self.urgent = True
        answer = _nothing(wanted, partition)
        answer.diverging_epoch = EpochEndOffset(epoch=diverged[0], end_offset=diverged[1])
        return answer

    def _read(self, wanted: Wanted, partition: Partition) -> PartitionData:
        read = partition.read(
            wanted.fetch_offset,
            min(wanted.size_max, self.size_max - self.size),
            self.size == 0,
            self.committed_only,
            self._uncommitted_too,
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
        if read.data is not None:
            answer.records = read.data
            self.size += read.data.size
        return answer

    def _elsewhere(self, wanted: Wanted, partition: Partition, node_id: int) -> PartitionData:
        self.urgent = True
        answer = _nothing(wanted, partition)
        answer.preferred_read_replica = node_id
        return answer

    def _failed(self, wanted: Wanted, error: ErrorCode) -> PartitionData:
        self.urgent = True
        return _error(wanted.key[1], error)

    def _failed_early(self, wanted: Wanted, error: ErrorCode) -> PartitionData:
        answer = self._failed(wanted, error)
        answer.aborted_transactions = _NOT_NULL
        return answer

    # -- all of them ----------------------------------------------------------------------------

    def response(self) -> FetchResponse:
        """What was found; in a session's later fetches, only what changed."""
        if self.call.account is not None and self.size:
            wait_ms = self.call.account.hold_back(self.call, self.size)
            if wait_ms > 0:
                return self._held_back(wait_ms)
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
            point_reader_at_leader(self.broker, self.call, response, self._replica_id < 0)
        return response

    def _held_back(self, wait_ms: int) -> FetchResponse:
        """Nothing, for now: the reader asks again. It was told of nothing, so none of it counts."""
        session_id = self.plan.session_id
        if not self.plan.incremental:
            # Clients take an empty answer to a first fetch as none: they begin another session.
            self.broker.fetch_sessions.forget(session_id)
            session_id = 0
        return FetchResponse(session_id=session_id, throttle_time_ms=wait_ms)


def refuse_all(call: Call, request: FetchRequest) -> FetchResponse:
    """The answer to who speaks as a follower and is none."""
    response = FetchResponse()
    for asked in request.topics:
        topic = _topic(asked.topic_id if call.version >= BY_ID_FROM else asked.topic)
        topic.partitions = [
            _error(each.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _NOT_NULL)
            for each in asked.partitions
        ]
        response.responses.append(topic)
    return response


def _error(
    index: int, error: ErrorCode, aborted: list[AbortedTransaction] | None = None
) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=aborted,
        records=b"",
    )


def _nothing(wanted: Wanted, partition: Partition) -> PartitionData:
    return PartitionData(
        partition_index=wanted.key[1],
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable,
        log_start_offset=partition.log.start,
        aborted_transactions=None,
        records=b"",
    )


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

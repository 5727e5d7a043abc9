"""Fetch, versions 4 to 18.

Sessions from version 7, leader epochs from 9, topic ids from 13, replica state from 15. A fetch
that finds fewer than `min_bytes` parks until more is committed or `max_wait_ms` has passed. The
first batch comes whole even if it is larger than every limit, or its reader would never move.
Answers carry slices of files: the listener sends them without reading them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from penstock.server.fetch_sessions import FetchPlan, Wanted
from penstock.server.leaders import point_reader_at_leader
from penstock.storage.txn_index import CorruptTxnIndex

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from penstock.protocol.generated.fetch import FetchRequest
    from penstock.replica.partition import Partition, Readable
    from penstock.server.broker import Broker
    from penstock.server.call import Call

BY_ID_FROM = 13
READ_COMMITTED = 1


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
    return _Parked(reading, request.min_bytes, request.max_wait_ms).answer


class _Reading:
    """One pass over the partitions that a fetch asks for."""

    __slots__ = (
        "_hosted",
        "answers",
        "broker",
        "call",
        "committed_only",
        "plan",
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
        self.replica_id = request.replica_id
        if request.replica_state is not None:
            self.replica_id = request.replica_state.replica_id
        self.size = 0
        self.urgent = not plan.wanted
        self.answers: list[tuple[Wanted, PartitionData]] = []

    def collect(self) -> None:
        """Look at every partition once."""
        self.size = 0
        self.answers = []
        for wanted in self.plan.wanted:
            self.answers.append((wanted, self._read(wanted)))

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
        error = partition.check_epoch(wanted.leader_epoch)
        if error or (self.replica_id >= 0 and self.replica_id not in partition.replicas):
            return self._failed(wanted, error or ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if wanted.last_fetched_epoch >= 0:
            diverged = partition.divergence(wanted.last_fetched_epoch, wanted.fetch_offset)
            if isinstance(diverged, ErrorCode):
                return self._failed(wanted, diverged)
            if diverged is not None:
                return self._diverged(wanted, partition, diverged)
        read = partition.read(
            wanted.fetch_offset,
            min(wanted.size_max, self.size_max - self.size),
            self.size == 0,
            self.committed_only,
            self.replica_id >= 0,
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
        return response


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
    )
    wanted.high_watermark = answer.high_watermark
    wanted.log_start = answer.log_start_offset
    return news


class _Parked:
    """A fetch that waits for bytes; its partitions tell it of progress.

    What they tell is a hint: a reader of committed transactions may see less of it, or nothing.
    So the fetch looks again when enough may be there, and is answered only if it is.
    """

    __slots__ = (
        "_looking",
        "_min_bytes",
        "_missing",
        "_must_answer",
        "_partitions",
        "_reading",
        "_timer",
        "answer",
    )

    def __init__(self, reading: _Reading, min_bytes: int, wait_ms: int) -> None:
        broker = reading.broker
        self._reading = reading
        self._min_bytes = min_bytes
        self._missing = min_bytes - reading.size
        self._looking = False
        self._must_answer = False
        self.answer: asyncio.Future[FetchResponse] = broker.loop.create_future()
        # Whoever awaits the answer may be gone before it comes: leaving must not depend on them.
        self.answer.add_done_callback(self._leave)
        self._timer = broker.loop.call_later(wait_ms / 1000, self._time_out)
        self._partitions = [
            partition
            for wanted in reading.plan.wanted
            if (partition := reading.partition(wanted)) is not None
        ]
        for partition in self._partitions:
            partition.park(self)
        broker.parked_fetches += 1
        broker.parked_partitions += len(self._partitions)

    def progress(self, size: int) -> None:
        """A partition may have `size` more bytes to read, or news of another kind (0)."""
        self._missing -= size
        if size == 0:
            self._must_answer = True
        if (size == 0 or self._missing <= 0) and not self._looking:
            self._looking = True  # once for all that is appended before the loop comes round
            self._reading.broker.loop.call_soon(self._look)

    def _time_out(self) -> None:
        self._must_answer = True
        self._look()

    def _look(self) -> None:
        self._looking = False
        if self.answer.done():
            return
        reading = self._reading
        reading.collect()
        if self._must_answer or reading.urgent or reading.size >= self._min_bytes:
            self.answer.set_result(reading.response())
        else:
            self._missing = self._min_bytes - reading.size

    def _leave(self, _: asyncio.Future[FetchResponse]) -> None:
        self._timer.cancel()
        for partition in self._partitions:
            partition.unpark(self)
        broker = self._reading.broker
        broker.parked_fetches -= 1
        broker.parked_partitions -= len(self._partitions)

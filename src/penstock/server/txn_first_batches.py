"""A transaction's first batches on a partition: held while its coordinator is asked, and in order.

Batches of one producer that come meanwhile wait behind the first, on each partition: one that
overtook it would be out of sequence. What waits is copied, and bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.model.errors import ErrorCode
from penstock.records.batch import HEAD_SIZE, read_head
from penstock.replica.partition import Appended, Refused
from penstock.replica.transactions import NOT_TRANSACTIONAL, Unverified
from penstock.server.txn_verification import NO_ERRORS, Support, verify

if TYPE_CHECKING:
    from penstock.protocol.generated.produce import PartitionProduceResponse, ProduceRequest
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.txn_verification import Errors, Place

BEHIND = Unverified(-1, -1, NOT_TRANSACTIONAL)
"""Stands for a batch that could not be looked at yet: earlier ones of its producer wait."""

WAITING_BYTES_MAX = 64 * 1024 * 1024
"""Batches that may wait in memory for coordinators. Whoever wants no answers would fill it up."""

_UNASKED = Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
_TOO_MANY = Refused(
    ErrorCode.NOT_ENOUGH_REPLICAS,
    "Too many batches wait for their transaction coordinators. Try again later.",
)
_NO_PART = "The partition does not take part in the transaction."
_COME_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # to the coordinator, who will soon hear of it
)
"""Why a coordinator could not be asked: all of it passes."""


def _nothing() -> None:
    """Nobody waits."""


class Question:
    """A producer's first batch of a transaction on a partition, and what became of it."""

    __slots__ = ("answer", "before", "leave", "partition", "records", "result", "unverified")

    def __init__(
        self,
        partition: Partition,
        records: memoryview,
        unverified: Unverified,
        answer: PartitionProduceResponse,
    ) -> None:
        self.partition = partition
        self.records = records
        self.unverified = unverified
        self.answer = answer
        self.result: Appended | Refused = _UNASKED
        self.before: asyncio.Future[None] | None = None
        self.leave: Callable[[], None] = _nothing

    @property
    def place(self) -> Place:
        return self.partition.topic, self.partition.index


def verify_batches(
    broker: Broker, call: Call, request: ProduceRequest, questions: list[Question]
) -> Awaitable[None] | None:
    """Ask about batches, all at once, and append those that may be: now (None), or later."""
    support = Support.of_produce(call.version)
    verifications = broker.coordinators.verifications
    if verifications.is_full:
        for question in questions:
            question.result = _TOO_MANY
        return None
    asked = [each for each in questions if each.unverified is not BEHIND]
    refused: Errors | Awaitable[Errors] = NO_ERRORS
    if asked:
        refused = _ask_about(broker, request, asked, support)
    if len(asked) == len(questions) and isinstance(refused, dict):
        for question in questions:
            _conclude(broker, question, refused, support)
        return None
    for question in questions:
        # The records lie in the connection's buffer, which the next request takes over.
        question.records = memoryview(bytearray(question.records))
        verifications.queue(question)
    # Whoever waits behind these must not depend on a client that may go away any moment.
    work = _conclude_later(broker, request, questions, refused, support)
    return asyncio.shield(verifications.detach(work))


def _ask_about(
    broker: Broker, request: ProduceRequest, asked: list[Question], support: Support
) -> Errors | Awaitable[Errors]:
    first = asked[0].unverified
    assert request.transactional_id is not None
    places = [each.place for each in asked]
    if any(each.unverified[:2] != first[:2] for each in asked):
        return dict.fromkeys(places, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    return verify(
        broker,
        request.transactional_id,
        first.producer_id,
        first.producer_epoch,
        places,
        support,
    )


async def _conclude_later(
    broker: Broker,
    request: ProduceRequest,
    questions: list[Question],
    refused: Errors | Awaitable[Errors],
    support: Support,
) -> None:
    try:
        if not isinstance(refused, dict):
            refused = await refused
        for question in questions:
            if question.before is not None:
                await question.before
            if question.unverified is BEHIND or not _conclude(broker, question, refused, support):
                await _ask_again(broker, request, question, support)
            question.leave()
    finally:
        for question in questions:
            question.leave()


async def _ask_again(
    broker: Broker, request: ProduceRequest, question: Question, support: Support
) -> None:
    """Ask for one batch by itself, if its transaction is not open by now.

    The batches ahead of it are settled, or the markers of the transaction before came between and
    voided its guard.
    """
    result = question.partition.append(question.records, broker.clock.now())
    if not isinstance(result, Unverified):
        question.result = result
        return
    question.unverified = result
    refused = _ask_about(broker, request, [question], support)
    if not isinstance(refused, dict):
        refused = await refused
    _conclude(broker, question, refused, support)


def _conclude(broker: Broker, question: Question, refused: Errors, support: Support) -> bool:
    """Append a batch if it may be; whether what the coordinator said still counted."""
    error = refused.get(question.place)
    if error:
        question.result = _as_producers_know(error, support)
        return True
    guard = question.unverified.guard
    guard.from_zero = support is Support.ADDS
    result = question.partition.append(question.records, broker.clock.now(), guard)
    if isinstance(result, Unverified):  # a marker came between
        question.result = Refused(ErrorCode.INVALID_TXN_STATE, _NO_PART)
        return False
    question.result = result
    return True


def _as_producers_know(error: ErrorCode, support: Support) -> Refused:
    """The coordinator's errors are not all known to producers, old ones in particular."""
    if error is ErrorCode.INVALID_TXN_STATE:
        return Refused(error, _NO_PART)
    if error in _COME_AGAIN or (
        error is ErrorCode.CONCURRENT_TRANSACTIONS and support is not Support.ADDS
    ):
        # The one error that makes all producers try again without asking who leads.
        return Refused(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"The transaction coordinator could not be asked about the batch: {error.name}",
        )
    return Refused(error)


class Verifications:
    """Batches that wait for a coordinator, each producer's in order on each partition."""

    def __init__(self) -> None:
        self._last: dict[tuple[Place, int], asyncio.Future[None]] = {}
        self._detached: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether no more batches may wait."""
        return self._bytes >= WAITING_BYTES_MAX

    def __bool__(self) -> bool:
        return bool(self._last)

    def behind(self, partition: Partition, records: memoryview) -> Unverified | None:
        """BEHIND if an earlier batch of the producer waits, which this one must not overtake."""
        if len(records) < HEAD_SIZE:
            return None
        key = (partition.topic, partition.index), read_head(records).producer_id
        return BEHIND if key in self._last else None

    def queue(self, question: Question) -> None:
        """Let a batch wait behind those of its producer that wait already."""
        key = question.place, read_head(question.records).producer_id
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        question.before = self._last.get(key)
        size = len(question.records)
        question.leave = partial(self._leave, key, mine, size)
        self._last[key] = mine
        self._bytes += size

    def _leave(self, key: tuple[Place, int], mine: asyncio.Future[None], size: int) -> None:
        if not mine.done():
            mine.set_result(None)
            self._bytes -= size
        if self._last.get(key) is mine:
            del self._last[key]

    def detach(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """See to it that something is finished, whether or not a client waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._detached[task] = None
        task.add_done_callback(self._detached.pop)
        return task

    def close(self) -> None:
        """The node stops."""
        for task in self._detached:
            task.cancel()

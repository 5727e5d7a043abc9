"""Produce, versions 3 to 13 (advertised from 0, which old clients look for).

acks 0 gets no reply, and a closed connection where one would have said an error; 1 is answered
after the append; -1 after every in-sync replica has it. Topics are named up to version 12, and
carried by id from 13 on. A topic with `flush.messages` reached is answered after the sync. Who may
write to the topics may write; batches of a transaction need a right to its transactional id too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.net.connection import CloseConnection
from penstock.protocol.generated.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.records.batch import compression_of
from penstock.records.compression import ZSTD
from penstock.replica.partition import Appended, Refused
from penstock.replica.transactions import NOT_TRANSACTIONAL, Unverified
from penstock.server.leaders import point_at_leader
from penstock.server.produce_rights import may_transact_all, may_write_topic
from penstock.server.produce_waits import Outcome, Place, ProduceWait
from penstock.server.txn_first_batches import Question, verify_batches

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.net.late_reply import LateReply
    from penstock.protocol.generated.produce import ProduceRequest, TopicProduceData
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.plain_produce import Result

ACKS = (-1, 0, 1)
ALL = -1
"""Acks of those who wait for all that are in sync."""
BY_ID_FROM = 13
ZSTD_FROM = 7
"""The first version whose clients may compress with zstd: older consumers could not read it."""
ADMIN_CLIENT_ID = "__admin_client"
"""The client id that may write internal topics, as in Kafka."""

_NOTHING = memoryview(b"")

_BEFORE_THE_LOG = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    )
)


def handle(
    broker: Broker, call: Call, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    """Append what was sent, partition by partition, and answer when it is safe enough."""
    acks = request.acks
    response = ProduceResponse()
    if broker.authorizer is not None and not may_transact_all(broker, call, request):
        return _refuse_all(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    pending: list[Place] = []
    refused: list[ErrorCode] = []
    questions: list[Question] = []
    now = broker.clock.now()
    for topic in request.topic_data:
        answers = _append_topic(broker, call, request, topic, now, pending, refused, questions)
        response.responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    if questions:
        settled = verify_batches(broker, call, request, questions)
        if settled is not None:
            later = _finish_later(broker, call, request, response, pending, questions, settled)
            if acks:
                return later
            broker.coordinators.verifications.detach(_close_if_refused(call, later))
            return None
        _settle(acks, questions, pending, refused)
    if acks == 0:
        _close_on_error(response)
        return None
    if pending:
        return _wait(broker, call, request.timeout_ms, pending, response)
    return point_at_leader(broker, call, response) if refused else response


def answer_results(
    broker: Broker,
    call: Call,
    acks: int,
    timeout_ms: int,
    results: list[Result],
    finish: Callable[[ProduceResponse], Outcome],
) -> Outcome | LateReply[Outcome]:
    """Answer batches for partitions of one topic that were handed to their logs before."""
    pending: list[Place] = []
    refused: list[ErrorCode] = []
    answers = [
        _answer(acks, partition, index, result, pending, refused)
        for partition, index, result in results
    ]
    first = results[0][0]
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=first.topic, topic_id=first.topic_id, partition_responses=answers
            )
        ]
    )
    if pending:
        return ProduceWait(broker, call, timeout_ms, pending, response, finish).reply
    return finish(point_at_leader(broker, call, response) if refused else response)


def _append_topic(
    broker: Broker,
    call: Call,
    request: ProduceRequest,
    topic: TopicProduceData,
    now: int,
    pending: list[Place],
    refused: list[ErrorCode],
    questions: list[Question],
) -> list[PartitionProduceResponse]:
    answers: list[PartitionProduceResponse] = []
    acks = request.acks
    by_id = call.version >= BY_ID_FROM
    guard = NOT_TRANSACTIONAL if request.transactional_id is None else None
    if broker.authorizer is not None and not may_write_topic(broker, call, topic):
        return _unauthorized(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    for item in topic.partition_data:
        index = item.index
        if by_id:
            partition = broker.hosted_by_id.get((topic.topic_id, index))
        else:
            partition = broker.hosted.get((topic.name, index))
        if partition is None:
            error = broker.why_not_hosted(topic.topic_id if by_id else topic.name, index)
            answers.append(PartitionProduceResponse(index=index, error_code=error, base_offset=-1))
            refused.append(error)
            continue
        records = item.records or _NOTHING
        result = (
            _refusal(call, acks, partition, records)
            or (guard is None and _behind(broker, partition, records))
            or partition.append(records, now, guard)
        )
        if isinstance(result, Unverified):
            answer = PartitionProduceResponse(index=index)
            questions.append(Question(partition, records, result, answer))
        else:
            answer = _answer(acks, partition, index, result, pending, refused)
        answers.append(answer)
    return answers


def _answer(
    acks: int,
    partition: Partition,
    index: int,
    result: Appended | Refused,
    pending: list[Place],
    refused: list[ErrorCode],
) -> PartitionProduceResponse:
    if isinstance(result, Refused):
        answer = PartitionProduceResponse(index=index)
        _refuse(answer, partition, result, refused)
        return answer
    answer = PartitionProduceResponse(
        index=index,
        base_offset=result.base_offset,
        log_append_time_ms=result.append_time,
        log_start_offset=result.log_start,
    )
    _park_if_early(acks, partition, result, answer, pending)
    return answer


def _behind(broker: Broker, partition: Partition, records: memoryview) -> Unverified | None:
    verifications = broker.coordinators.verifications
    return verifications.behind(partition, records) if verifications else None


def _refusal(call: Call, acks: int, partition: Partition, records: memoryview) -> Refused | None:
    if acks not in ACKS:
        return Refused(ErrorCode.INVALID_REQUIRED_ACKS)
    if partition.internal and call.client_id != ADMIN_CLIENT_ID:
        return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if acks == ALL and partition.under_min and partition.leading:
        return Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    if partition.offline:
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR)
    if call.version < ZSTD_FROM and compression_of(records) == ZSTD:
        return Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return None


def _refuse(
    answer: PartitionProduceResponse,
    partition: Partition,
    result: Refused,
    refused: list[ErrorCode],
) -> None:
    refused.append(result.error)
    answer.error_code = result.error
    answer.base_offset = -1
    answer.log_start_offset = -1 if _hides_log_start(result) else partition.log.start
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=why)
        for at, why in result.record_errors
    ]
    answer.error_message = result.message


def _hides_log_start(refused: Refused) -> bool:
    """Kafka tells where the log begins unless the batch never came so far as to meet the log."""
    if refused.error == ErrorCode.INVALID_RECORD:
        return not refused.record_errors
    return refused.error in _BEFORE_THE_LOG


def _close_on_error(response: ProduceResponse) -> None:
    # Without a reply, closing is the only way to make the producer look again who leads.
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise CloseConnection(
                    f"produce with acks=0 failed: {ErrorCode(answer.error_code).name}"
                )


def _park_if_early(
    acks: int,
    partition: Partition,
    result: Appended,
    answer: PartitionProduceResponse,
    pending: list[Place],
) -> None:
    """Let the answer wait for what its producer wants: everybody in sync to have the batch, or
    only this node, as durably as the topic asks."""
    end = result.end_offset
    if not acks or partition.high_watermark >= end or (acks != ALL and partition.synced >= end):
        return
    if partition.offline:
        # Since a moment ago: whoever waited there was released, and nobody is now.
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        answer.base_offset = -1
        return
    place = Place(answer)
    if acks == ALL:
        partition.await_commit(end, place)
    else:
        partition.waits.await_sync(end, place)
    pending.append(place)


def _wait(
    broker: Broker, call: Call, timeout_ms: int, pending: list[Place], response: ProduceResponse
) -> Awaitable[ProduceResponse]:
    return ProduceWait(broker, call, timeout_ms, pending, response, _as_it_is).reply


def _as_it_is(response: ProduceResponse) -> ProduceResponse:
    return response


# -- who has no right -----------------------------------------------------------------------------


def _unauthorized(topic: TopicProduceData, error: ErrorCode) -> list[PartitionProduceResponse]:
    return [
        PartitionProduceResponse(index=item.index, error_code=error, base_offset=-1)
        for item in topic.partition_data
    ]


def _refuse_all(request: ProduceRequest, error: ErrorCode) -> ProduceResponse | None:
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=_unauthorized(topic, error),
            )
            for topic in request.topic_data
        ]
    )
    if request.acks == 0:
        _close_on_error(response)
        return None
    return response


# -- the first batches of transactions ------------------------------------------------------------


def _settle(
    acks: int,
    questions: list[Question],
    pending: list[Place],
    refused: list[ErrorCode],
) -> None:
    """Answer what the transaction coordinator was asked about."""
    for question in questions:
        partition, answer, result = question.partition, question.answer, question.result
        if isinstance(result, Refused):
            _refuse(answer, partition, result, refused)
            continue
        answer.base_offset = result.base_offset
        answer.log_append_time_ms = result.append_time
        answer.log_start_offset = result.log_start
        _park_if_early(acks, partition, result, answer, pending)


async def _finish_later(
    broker: Broker,
    call: Call,
    request: ProduceRequest,
    response: ProduceResponse,
    pending: list[Place],
    questions: list[Question],
    settled: Awaitable[None],
) -> ProduceResponse:
    await settled
    _settle(request.acks, questions, pending, [])
    if pending:
        return await _wait(broker, call, request.timeout_ms, pending, response)
    return point_at_leader(broker, call, response)


async def _close_if_refused(call: Call, later: Awaitable[ProduceResponse]) -> None:
    response = await later
    try:
        _close_on_error(response)
    except CloseConnection:
        call.connection.abort()

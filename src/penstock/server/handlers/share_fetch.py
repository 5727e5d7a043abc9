"""ShareFetch, versions 1 and 2.

A member of a share group fetches records that are its own for a while: each comes with the lock of
the group. It names partitions in a session (epoch 0 opens it, -1 closes it and gives back what the
member holds), and may say in the same request what became of records that it got before. Version 2
adds the strict record limit, and the prolonging of locks, for which nothing else may be asked. A
fetch that finds too little parks, also for records that come back.

Needs a right to read the group, and each topic whenever it looks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.share_fetch import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from penstock.server.leaders import point_share_at_leader
from penstock.server.share_acknowledging import acknowledge_all
from penstock.server.share_parking import ParkedShareFetch
from penstock.server.share_reading import RECORD_LIMIT, ShareReading
from penstock.server.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, Member
from penstock.server.shares import Refusal, refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.share_fetch import ShareFetchRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.share_answers import Acknowledgements
    from penstock.server.share_sessions import ShareSession


def handle(
    broker: Broker, call: Call, request: ShareFetchRequest
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    """Answer at once if there is enough to say, or park."""
    group_id, member_id = request.group_id, request.member_id
    error = refusal(broker, call, group_id, member_id) or _why_senseless(request)
    if error is not None:
        return ShareFetchResponse(error_code=error[0], error_message=error[1])
    member = Member(group_id or "", member_id or "")
    session = _session(broker, call, request, member)
    if session is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
        return _refuse_later(session, request.max_wait_ms)
    if isinstance(session, ErrorCode):
        return ShareFetchResponse(error_code=session)
    if request.topics and broker.shares.names_too_many(session):
        broker.shares.close_session(session)
        why = "A session cannot name many more partitions than there are."
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=why)
    renews = request.is_renew_ack
    answers = acknowledge_all(broker, call, member, request.topics, renews, empty_too=False)
    reading = ShareReading(broker, call, request, session)
    if request.share_session_epoch == FINAL_EPOCH:
        return _close(reading, answers, session)
    if renews:
        return _answer_when_settled(reading, answers)
    return _fetch(reading, answers, request)


def _why_senseless(request: ShareFetchRequest) -> Refusal | None:
    if not 0 <= request.share_acquire_mode <= RECORD_LIMIT:
        return ErrorCode.INVALID_REQUEST, f"No acquire mode {request.share_acquire_mode}."
    if request.is_renew_ack and (
        request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    ):
        return (
            ErrorCode.INVALID_REQUEST,
            "A request that renews locks fetches nothing: its limits and its wait must be 0.",
        )
    if request.share_session_epoch == INITIAL_EPOCH and any(
        part.acknowledgement_batches for topic in request.topics for part in topic.partitions
    ):
        return ErrorCode.INVALID_REQUEST, "Nothing can be acknowledged before a session is open."
    return None


def _session(
    broker: Broker, call: Call, request: ShareFetchRequest, member: Member
) -> ShareSession | ErrorCode:
    asked = (
        (topic.topic_id, part.partition_index)
        for topic in request.topics
        for part in topic.partitions
    )
    forgotten = (
        (topic.topic_id, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    )
    connection = call.connection
    owner = None if connection.gate is None else connection.gate.principal
    session = broker.shares.sessions.begin(
        member, request.share_session_epoch, asked, forgotten, connection, owner
    )
    if not isinstance(session, ErrorCode) and request.share_session_epoch == INITIAL_EPOCH:
        broker.shares.bind(connection)
        broker.shares.partitions.verify(member.group_id, session.partitions)
    return session


async def _refuse_later(error: ErrorCode, wait_ms: int) -> ShareFetchResponse:
    """After as long as it would have waited for records: or it would ask again at once."""
    await asyncio.sleep(max(0, wait_ms) / 1000)
    return ShareFetchResponse(error_code=error)


def _fetch(
    reading: ShareReading, answers: Acknowledgements, request: ShareFetchRequest
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    broker = reading.broker
    reading.look()
    enough = reading.errors or reading.size >= reading.size_min
    if enough or request.max_wait_ms <= 0:
        reading.take()
    if not reading.has_news and request.max_wait_ms > 0:
        count = len(list(reading.partitions))
        limits = broker.limits
        # An empty answer is legal, an endless queue is not.
        if count and (
            broker.parked_fetches < limits.parked_fetches_max
            and broker.parked_partitions + count <= limits.parked_partitions_max
        ):
            parked = ParkedShareFetch(reading, request.max_wait_ms)
            return _answer_when_settled(reading, answers, parked.done)
    if answers.settled:
        return _response(reading, answers)
    return _answer_when_settled(reading, answers)


async def _answer_when_settled(
    reading: ShareReading, answers: Acknowledgements, parked: asyncio.Future[None] | None = None
) -> ShareFetchResponse:
    if parked is not None:
        await parked
    await answers.wait()
    return _response(reading, answers)


async def _close(
    reading: ShareReading, answers: Acknowledgements, session: ShareSession
) -> ShareFetchResponse:
    await answers.wait()
    reading.broker.shares.close_session(session)
    return _response(reading, answers)


def _response(reading: ShareReading, answers: Acknowledgements) -> ShareFetchResponse:
    broker = reading.broker
    parts = reading.answers
    for key, error in reading.errors.items():
        parts[key] = PartitionData(partition_index=key[1], error_code=error, records=b"")
    for key, error in answers.errors.items():
        part = parts.get(key)
        if part is None:
            part = parts[key] = PartitionData(partition_index=key[1], records=b"")
        part.acknowledge_error_code = error
    response = ShareFetchResponse(
        throttle_time_ms=reading.wait_ms, acquisition_lock_timeout_ms=reading.lock_ms
    )
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for (topic_id, _), part in parts.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id)
            response.responses.append(topic)
        topic.partitions.append(part)
    if reading.errors or any(answers.errors.values()):
        point_share_at_leader(broker, reading.call, response)
    return response

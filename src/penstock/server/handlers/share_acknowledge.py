"""ShareAcknowledge, versions 1 and 2.

A member of a share group says what became of records that it fetched: accepted, to be delivered
again, or given up; from version 2 on, that it wants to keep them for longer. It counts when the
share coordinator has it. The session is that of the member's fetches; epoch -1 closes it, and gives
back what the member still holds.

Needs a right to read the group and each topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from penstock.server.leaders import point_share_at_leader
from penstock.server.share_acknowledging import acknowledge_all
from penstock.server.share_sessions import FINAL_EPOCH, Member
from penstock.server.shares import refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.share_acknowledge import ShareAcknowledgeRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.share_answers import Acknowledgements
    from penstock.server.share_sessions import ShareSession


def handle(
    broker: Broker, call: Call, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | Awaitable[ShareAcknowledgeResponse]:
    """Answer when what is said counts."""
    group_id, member_id = request.group_id, request.member_id
    error = refusal(broker, call, group_id, member_id)
    if error is not None:
        return ShareAcknowledgeResponse(error_code=error[0], error_message=error[1])
    member = Member(group_id or "", member_id or "")
    gate = call.connection.gate
    owner = None if gate is None else gate.principal
    session = broker.shares.sessions.carry_on(member, request.share_session_epoch, owner)
    if isinstance(session, ErrorCode):
        return ShareAcknowledgeResponse(error_code=session)
    answers = acknowledge_all(
        broker, call, member, request.topics, request.is_renew_ack, empty_too=True
    )
    closed = session if request.share_session_epoch == FINAL_EPOCH else None
    return _answer(broker, call, member, answers, closed)


async def _answer(
    broker: Broker,
    call: Call,
    member: Member,
    answers: Acknowledgements,
    closed: ShareSession | None,
) -> ShareAcknowledgeResponse:
    await answers.wait()
    if closed is not None:
        broker.shares.close_session(closed)
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.shares.settings(member.group_id).delivery.lock_ms
    )
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for (topic_id, index), error in answers.errors.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ShareAcknowledgeTopicResponse(topic_id=topic_id)
            response.responses.append(topic)
        topic.partitions.append(PartitionData(partition_index=index, error_code=error))
    if any(answers.errors.values()):
        point_share_at_leader(broker, call, response)
    return response

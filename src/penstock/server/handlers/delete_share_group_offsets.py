"""DeleteShareGroupOffsets, version 0: a share group without members forgets whole topics.

When it reads them again it begins as if it had never read them. It takes a right to delete the
group, and one to read each topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.refusal import Refusal
from penstock.coordination.group.share.offsets import begin_forgetting, end_forgetting
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from penstock.server import audit
from penstock.server.group_share_state import ask_group, forget_state
from penstock.server.handlers.share_group_heartbeat import is_enabled
from penstock.server.rights import may_group
from penstock.server.topic_rights import refused_topics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.protocol.generated.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call

    Answer = DeleteShareGroupOffsetsResponseTopic


async def handle(
    broker: Broker, call: Call, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """Topic by topic; an error about the group stands alone."""
    group_id = request.group_id
    if not is_enabled(broker):
        return _failed(ErrorCode.UNSUPPORTED_VERSION)
    if not may_group(broker, call, Operation.DELETE, group_id):
        return _failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return _failed(ErrorCode.INVALID_GROUP_ID)
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    no_right = refused_topics(broker, call, Operation.READ, names)
    told = await _delete(broker, group_id, [name for name in names if name not in no_right])
    if isinstance(told, Refusal):
        return _failed(told.error, told.message)
    gone = [topic.topic_name for topic in told if not topic.error_code]
    if gone:
        audit.changed(call, "delete share offsets", {"group": group_id, "topics": gone})
    refused = [_wrong(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in sorted(no_right)]
    return DeleteShareGroupOffsetsResponse(responses=refused + told)


async def _delete(broker: Broker, group_id: str, names: Sequence[str]) -> list[Answer] | Refusal:
    """Write it down, have it done, write down what was done."""
    begun = await ask_group(
        broker, group_id, lambda shard, _, out: begin_forgetting(shard, out, group_id, names)
    )
    if isinstance(begun, ErrorCode):
        return Refusal(begun, begun.message)
    if isinstance(begun, Refusal):
        return begun
    errors: dict[bytes, ErrorCode] = dict.fromkeys(begun.topics, ErrorCode.NONE)
    for key, error in (await forget_state(broker, group_id, begun.topics)).items():
        errors[key.topic_id] = errors[key.topic_id] or error
    gone = [topic_id for topic_id, error in errors.items() if not error]
    ended = await ask_group(
        broker, group_id, lambda shard, _, out: end_forgetting(shard, out, group_id, gone)
    )
    answers = []
    for topic_id, topic in begun.topics.items():
        error = errors[topic_id] or ended or ErrorCode.NONE
        answer = DeleteShareGroupOffsetsResponseTopic(topic_name=topic.name, topic_id=topic_id)
        if error:
            answer.error_code, answer.error_message = error, error.message
        answers.append(answer)
    known = broker.image.topics.by_name
    for name in begun.without_state:
        why = "There is no offset information to delete." if name in known else None
        answers.append(_wrong(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why))
    return answers


def _wrong(name: str, error: ErrorCode, message: str | None = None) -> Answer:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, error_code=error, error_message=message or error.message
    )


def _failed(error: ErrorCode, message: str | None = None) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=error, error_message=message or error.message)

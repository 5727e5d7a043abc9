"""DeleteTopics, versions 1 to 6: each topic is deleted or refused by itself.

Topics are named up to version 5; from version 6 on by name or by id. The controller decides. A
client sees the topic gone when the answer comes; its files go a little later. It takes DELETE on
the cluster or on each topic. A name that may not even be described is refused whether it is there
or not, and an id is not given a name.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from penstock.protocol.primitives import ZERO_UUID
from penstock.server import audit
from penstock.server.forwarding import forward
from penstock.server.rights import may_cluster, may_topic

if TYPE_CHECKING:
    from penstock.protocol.generated.delete_topics import DeleteTopicState
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def handle(broker: Broker, call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Forward to the controller what may be; the answer comes when the removal is durable."""
    forbidden: list[DeletableTopicResult] = []
    if not may_cluster(broker, call, Operation.DELETE, tells=False):
        request = _allowed(broker, call, request, forbidden)
    response = DeleteTopicsResponse()
    if request.topics or request.topic_names or not forbidden:
        response = await forward(broker, call, request)
        gone = [each.name for each in response.responses if not each.error_code]
        if gone:
            audit.changed(call, "delete topics", {"topics": gone})
    response.responses += forbidden
    return response


def _allowed(
    broker: Broker, call: Call, request: DeleteTopicsRequest, forbidden: list[DeletableTopicResult]
) -> DeleteTopicsRequest:
    """What is left of the request; the rest is refused."""
    by_name = Counter(request.topic_names)
    by_name.update(each.name for each in request.topics if _is_name(each) and each.name is not None)
    by_id = Counter(each.topic_id for each in request.topics if _is_id(each))
    for name, count in by_name.items():
        error = _refusal(broker, call, name) if count == 1 else None
        if error is not None:
            forbidden.append(_refused(name, ZERO_UUID, error))
    names = {each.name for each in forbidden}
    ids: set[bytes] = set()
    for topic_id, count in by_id.items():
        topic = broker.image.topics.by_id.get(topic_id)
        if count > 1:
            continue  # refused by the controller
        if topic is None:
            forbidden.append(_refused(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
        elif may_topic(broker, call, Operation.DELETE, topic.name):
            continue
        else:
            seen = may_topic(broker, call, Operation.DESCRIBE, topic.name, tells=False)
            forbidden.append(_refused(topic.name if seen else None, topic_id, _FORBIDDEN))
        ids.add(topic_id)
    return DeleteTopicsRequest(
        topics=[
            each
            for each in request.topics
            if not (_is_name(each) and each.name in names)
            and not (_is_id(each) and each.topic_id in ids)
        ],
        topic_names=[name for name in request.topic_names if name not in names],
        timeout_ms=request.timeout_ms,
    )


def _is_name(topic: DeleteTopicState) -> bool:
    return topic.name is not None and topic.topic_id == ZERO_UUID


def _is_id(topic: DeleteTopicState) -> bool:
    return topic.name is None and topic.topic_id != ZERO_UUID


def _refusal(broker: Broker, call: Call, name: str) -> ErrorCode | None:
    """Why not to ask the controller, to whom it may be there by now; None if it is to be asked.
    Who may describe a topic may hear that it is not there."""
    if may_topic(broker, call, Operation.DELETE, name):
        return None
    unknown = name not in broker.image.topics.by_name
    if unknown and may_topic(broker, call, Operation.DESCRIBE, name, tells=False):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _FORBIDDEN


def _refused(name: str | None, topic_id: bytes, error: ErrorCode) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=error, error_message=error.message
    )

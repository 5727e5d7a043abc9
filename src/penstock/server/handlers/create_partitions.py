"""CreatePartitions, versions 0 to 3: a topic gets more partitions, never fewer.

Each topic of the request succeeds or fails by itself. The controller places the new partitions
unless the request says where they go. It takes ALTER on each topic.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from penstock.server import audit
from penstock.server.forwarding import forward
from penstock.server.rights import may_topic

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def handle(
    broker: Broker, call: Call, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Forward to the controller what may be; the answer comes when the partitions are durable."""
    times = Counter(each.name for each in request.topics)
    forbidden = [
        name
        for name, count in times.items()
        if count == 1 and not may_topic(broker, call, Operation.ALTER, name)
    ]
    if forbidden:
        kept = {each.name for each in request.topics}.difference(forbidden)
        request = CreatePartitionsRequest(
            topics=[each for each in request.topics if each.name in kept],
            timeout_ms=request.timeout_ms,
            validate_only=request.validate_only,
        )
    response = CreatePartitionsResponse()
    if request.topics or not forbidden:
        response = await forward(broker, call, request)
        done = {each.name for each in response.results if not each.error_code}
        if done and not request.validate_only:
            counts = {each.name: each.count for each in request.topics if each.name in done}
            audit.changed(call, "create partitions", {"topics": counts})
    response.results += [
        CreatePartitionsTopicResult(
            name=name, error_code=_FORBIDDEN, error_message=_FORBIDDEN.message
        )
        for name in forbidden
    ]
    return response

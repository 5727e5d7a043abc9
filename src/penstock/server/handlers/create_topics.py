"""CreateTopics, versions 2 to 7: each topic is created or refused by itself.

The controller decides. The answer comes when the topics are committed, and from version 5 on it
says with which configuration, to those who may see it; this broker hosts its part of them by then,
unless there are so many that it opens them in slices. It takes CREATE on the cluster or on each
topic; a name that stands twice in a request is refused before anybody's rights are looked at.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.controller.topic_names import METADATA_TOPIC
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.server import audit
from penstock.server.forwarding import forward
from penstock.server.rights import may_cluster, may_topic

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def handle(broker: Broker, call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Forward to the controller what may be; the answer comes when the topics are durable."""
    forbidden = _forbidden(broker, call, request)
    if forbidden:
        kept = {each.name for each in request.topics}.difference(forbidden)
        request = CreateTopicsRequest(
            topics=[each for each in request.topics if each.name in kept],
            timeout_ms=request.timeout_ms,
            validate_only=request.validate_only,
        )
    response = CreateTopicsResponse()
    if request.topics or not forbidden:
        response = await forward(broker, call, request)
        made = [each.name for each in response.topics if not each.error_code]
        if made and not request.validate_only:
            audit.changed(call, "create topics", {"topics": made})
        _hide_configs(broker, call, response)
    response.topics += [
        CreatableTopicResult(name=name, error_code=_FORBIDDEN, error_message=_FORBIDDEN.message)
        for name in forbidden
    ]
    return response


def _forbidden(broker: Broker, call: Call, request: CreateTopicsRequest) -> list[str]:
    if may_cluster(broker, call, Operation.CREATE, tells=False):
        return []
    times = Counter(each.name for each in request.topics)
    return [
        name
        for name, count in times.items()
        if count == 1
        and name != METADATA_TOPIC  # nobody may, and everybody hears why
        and not may_topic(broker, call, Operation.CREATE, name)
    ]


def _hide_configs(broker: Broker, call: Call, response: CreateTopicsResponse) -> None:
    if broker.authorizer is None:
        return
    for topic in response.topics:
        if not topic.error_code and not may_topic(
            broker, call, Operation.DESCRIBE_CONFIGS, topic.name, tells=False
        ):
            topic.topic_config_error_code = _FORBIDDEN
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []

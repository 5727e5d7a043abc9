"""Topics that come into being because a client asked about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.registry import API
from penstock.raft.driver import NotLeader
from penstock.server import audit, internal_topics
from penstock.server.call import Call

if TYPE_CHECKING:
    from penstock.server.broker import Broker

_BY_THE_NODES_DEFAULTS = -1


async def create_topics_on_demand(
    broker: Broker, call: Call, names: list[str]
) -> dict[str, ErrorCode]:
    """Create topics with the node's defaults; answers what to say of those that are not there.

    Somebody else may have asked for the same topic a moment ago: that is no error. It is the
    client who creates them: the controller hears of whom it is, and looks at rights once more.
    """
    key, version = int(ApiKey.CREATE_TOPICS), API[ApiKey.CREATE_TOPICS].versions[-1]
    asking = Call(call.connection, key, version, call.correlation_id, call.client_id, call.sender)
    asking.mutations = broker.quotas.mutations(asking)
    request = CreateTopicsRequest(
        topics=[_creatable(broker, name) for name in dict.fromkeys(names)],
        timeout_ms=broker.config.get_int("request.timeout.ms"),
    )
    try:
        response = await broker.controller.handle(
            key,
            request,
            version=version,
            call=asking,
            seconds_max=internal_topics.CONTROLLER_SECONDS_MAX,
        )
    except NotLeader:
        return dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE)  # the client asks again
    errors: dict[str, ErrorCode] = {}
    for topic in response.topics:
        error = ErrorCode(topic.error_code)
        if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            # Created, but this broker may not have heard of it yet: the client asks again.
            errors[topic.name] = ErrorCode.LEADER_NOT_AVAILABLE
        elif error is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            errors[topic.name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # the client asks again
        else:
            errors[topic.name] = error
    made = [topic.name for topic in response.topics if not topic.error_code]
    if made:
        audit.changed(asking, "create topics", {"topics": made, "because": "asked about"})
    return errors


def _creatable(broker: Broker, name: str) -> CreatableTopic:
    if name in internal_topics.NAMES:
        return internal_topics.creatable(broker.config, name)
    return CreatableTopic(
        name=name,
        num_partitions=_BY_THE_NODES_DEFAULTS,
        replication_factor=_BY_THE_NODES_DEFAULTS,
    )

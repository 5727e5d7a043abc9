"""Metadata, versions 0 to 13: who is there, and who leads what.

No topics asked means all of them in version 0, and from version 1 on an empty list means none and
null means all. From version 10 on topics may be asked by id. A topic that does not exist is
created if both client and node allow it, and the client is told LEADER_NOT_AVAILABLE meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.topic_names import invalid_name
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.model.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from penstock.protocol.generated.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.replica.partition import INTERNAL_TOPICS
from penstock.server.leadership import Reachable
from penstock.server.topic_creation import create_topics_on_demand

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.metadata.image import MetadataImage
    from penstock.metadata.topics import PartitionImage, TopicImage
    from penstock.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
    from penstock.server.broker import Broker
    from penstock.server.call import Call


BY_ID_FROM = 12
"""Versions 10 and 11 have room for topic ids in requests, and no use for them."""


def handle(
    broker: Broker, call: Call, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Answer from the current image; create what is missing first, where that is allowed."""
    if any(_is_invalid(topic, call.version) for topic in request.topics or ()):
        return _refused(request)
    missing = _missing(broker, call, request)
    if missing:
        return _create_and_answer(broker, call, request, missing)
    return _answer(broker, call, request, {})


def _is_invalid(topic: MetadataRequestTopic, version: int) -> bool:
    """Neither name nor id, or an id in the versions that carry one without being able to use it."""
    if topic.topic_id == ZERO_UUID:
        return topic.name is None
    return version < BY_ID_FROM


def _refused(request: MetadataRequest) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id
            )
            for topic in request.topics or ()
        ]
    )


def _missing(broker: Broker, call: Call, request: MetadataRequest) -> list[str]:
    if not request.topics or not broker.config.get_bool("auto.create.topics.enable"):
        return []
    if call.version >= 4 and not request.allow_auto_topic_creation:
        return []
    by_name = broker.image.topics.by_name
    return [
        topic.name
        for topic in request.topics
        if topic.name and topic.name not in by_name and invalid_name(topic.name) is None
    ]


async def _create_and_answer(
    broker: Broker, call: Call, request: MetadataRequest, missing: list[str]
) -> MetadataResponse:
    errors = await create_topics_on_demand(broker, missing)
    return _answer(broker, call, request, errors)


def _answer(
    broker: Broker, call: Call, request: MetadataRequest, errors: dict[str, ErrorCode]
) -> MetadataResponse:
    image = broker.image
    response = MetadataResponse(
        cluster_id=broker.cluster_id,
        controller_id=_some_broker(broker),
        brokers=_brokers(image, call.listener_name),
    )
    wanted, version = request.topics, call.version
    reachable = Reachable(image, call.listener_name)
    if wanted is None or (version == 0 and not wanted):
        response.topics = [
            _topic(reachable, version, topic) for topic in image.topics.by_name.values()
        ]
    else:
        once = {(topic.topic_id, topic.name): topic for topic in wanted}.values()
        response.topics = [_asked(reachable, version, topic, errors) for topic in once]
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if not topic.error_code:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _some_broker(broker: Broker) -> int:
    # Clients send administrative requests to "the controller"; any broker forwards them, so any
    # broker may be named. Kafka picks one at random too, for the same reason.
    return broker.node_id if broker.node_id in broker.image.cluster.brokers else -1


def _brokers(image: MetadataImage, listener: str) -> list[MetadataResponseBroker]:
    found = []
    for node_id, node in image.cluster.brokers.items():
        endpoint = node.endpoint(listener)
        if endpoint is not None and not node.fenced:
            found.append(
                MetadataResponseBroker(
                    node_id=node_id, host=endpoint.host, port=endpoint.port, rack=node.rack
                )
            )
    return found


def _asked(
    reachable: Reachable, version: int, wanted: MetadataRequestTopic, errors: dict[str, ErrorCode]
) -> MetadataResponseTopic:
    topics = reachable.image.topics
    name = wanted.name
    if name is None or wanted.topic_id != ZERO_UUID:
        found = topics.by_id.get(wanted.topic_id)
        if found is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id
            )
        return _topic(reachable, version, found)
    found = topics.by_name.get(name)
    if found is not None:
        return _topic(reachable, version, found)
    error = errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if invalid_name(name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)


def _topic(reachable: Reachable, version: int, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(reachable, version, index, state)
            for index, state in sorted(topic.partitions.items())
        ],
    )


def _partition(
    reachable: Reachable, version: int, index: int, state: PartitionImage
) -> MetadataResponsePartition:
    leader = reachable.leader(state)
    error = ErrorCode.NONE
    if leader < 0:
        error = ErrorCode.LEADER_NOT_AVAILABLE
        if version >= 6 and state.leader in reachable.image.cluster.brokers:
            error = ErrorCode.LISTENER_NOT_FOUND
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=reachable.offline_replicas(state),
    )

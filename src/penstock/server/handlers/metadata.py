"""Metadata, versions 0 to 13: who is there, and who leads what.

No topics asked means all of them in version 0, and from version 1 on an empty list means none and
null means all. From version 10 on topics may be asked by id. A topic that does not exist is
created if both client and node allow it, and the client is told LEADER_NOT_AVAILABLE meanwhile.

It takes a right to describe a topic to hear of it, even of whether it exists, and one to create it
(it, or any topic of the cluster) to have it created. Brokers are told to everybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.topic_names import invalid_name
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.model.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, Operation
from penstock.model.resources import CLUSTER_NAME, ResourceType
from penstock.protocol.generated.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.replica.partition import INTERNAL_TOPICS
from penstock.server.leadership import Reachable
from penstock.server.rights import may_cluster, rights_bits
from penstock.server.topic_creation import create_topics_on_demand
from penstock.server.topic_rights import refused_topics, shows_topic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from penstock.metadata.image import MetadataImage
    from penstock.metadata.topics import PartitionImage, TopicImage
    from penstock.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
    from penstock.server.broker import Broker
    from penstock.server.call import Call


BY_ID_FROM = 12
"""Versions 10 and 11 have room for topic ids in requests, and no use for them."""

_SAYS_NOTHING = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID)
"""Errors of topics of which nothing else is told. To one that does not exist there are rights."""


def handle(
    broker: Broker, call: Call, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Answer from the current image; create what is missing first, where that is allowed."""
    if any(_is_invalid(topic, call.version) for topic in request.topics or ()):
        return _refused(request)
    hidden = refused_topics(broker, call, Operation.DESCRIBE, _named(broker, request))
    missing = _missing(broker, call, request, hidden)
    errors = _not_to_create(broker, call, missing) if missing else {}
    wanted = [name for name in missing if name not in errors and invalid_name(name) is None]
    if wanted:
        return _create_and_answer(broker, call, request, errors, wanted)
    return _answer(broker, call, request, hidden, errors)


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


def _named(broker: Broker, request: MetadataRequest) -> Iterator[str]:
    """What the request asks for by name, or by the id of something that has a name."""
    by_id = broker.image.topics.by_id
    for topic in request.topics or ():
        if topic.topic_id == ZERO_UUID:
            yield topic.name or ""
        elif topic.topic_id in by_id:
            yield by_id[topic.topic_id].name


def _missing(
    broker: Broker, call: Call, request: MetadataRequest, hidden: frozenset[str]
) -> list[str]:
    """What the client asks to have created: not what it must not even know to be missing."""
    if not request.topics or not broker.config.get_bool("auto.create.topics.enable"):
        return []
    if call.version >= 4 and not request.allow_auto_topic_creation:
        return []
    by_name = broker.image.topics.by_name
    return [
        topic.name
        for topic in request.topics
        if topic.topic_id == ZERO_UUID
        and topic.name
        and topic.name not in by_name
        and topic.name not in hidden
    ]


def _not_to_create(broker: Broker, call: Call, names: list[str]) -> dict[str, ErrorCode]:
    if may_cluster(broker, call, Operation.CREATE, tells=False):
        return {}
    refused = refused_topics(broker, call, Operation.CREATE, names)
    return dict.fromkeys(refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def _create_and_answer(
    broker: Broker,
    call: Call,
    request: MetadataRequest,
    errors: dict[str, ErrorCode],
    wanted: list[str],
) -> MetadataResponse:
    created = await create_topics_on_demand(broker, call, wanted)
    # Others may have made topics meanwhile, whose ids had no names before.
    hidden = refused_topics(broker, call, Operation.DESCRIBE, _named(broker, request))
    return _answer(broker, call, request, hidden, errors | created)


def _answer(
    broker: Broker,
    call: Call,
    request: MetadataRequest,
    hidden: frozenset[str],
    errors: dict[str, ErrorCode],
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
            _topic(reachable, version, topic)
            for topic in image.topics.by_name.values()
            if shows_topic(broker, call, topic.name)
        ]
    else:
        # By what it is found: a name beside an id says nothing, and could be any.
        once = {
            topic.name if topic.topic_id == ZERO_UUID else topic.topic_id: topic for topic in wanted
        }.values()
        response.topics = [_asked(reachable, version, topic, hidden, errors) for topic in once]
    _add_rights(broker, call, request, response)
    return response


def _add_rights(
    broker: Broker, call: Call, request: MetadataRequest, response: MetadataResponse
) -> None:
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.error_code not in _SAYS_NOTHING:
                topic.topic_authorized_operations = rights_bits(
                    broker, call, ResourceType.TOPIC, topic.name or "", TOPIC_OPERATIONS
                )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = 0
        if may_cluster(broker, call, Operation.DESCRIBE):
            response.cluster_authorized_operations = rights_bits(
                broker, call, ResourceType.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS
            )


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
    reachable: Reachable,
    version: int,
    wanted: MetadataRequestTopic,
    hidden: frozenset[str],
    errors: dict[str, ErrorCode],
) -> MetadataResponseTopic:
    topics = reachable.image.topics
    name = wanted.name
    if name is None or wanted.topic_id != ZERO_UUID:
        found = topics.by_id.get(wanted.topic_id)
        if found is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id
            )
        if found.name in hidden:
            # Ids are no secret, names are.
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return MetadataResponseTopic(error_code=error, name=None, topic_id=wanted.topic_id)
        return _topic(reachable, version, found)
    if name in hidden:
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    found = topics.by_name.get(name)
    if found is not None:
        return _topic(reachable, version, found)
    is_invalid = invalid_name(name) is not None
    unknown = (
        ErrorCode.INVALID_TOPIC_EXCEPTION if is_invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    error = errors.get(name, unknown)
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

"""FindCoordinator, versions 0 to 6: which node coordinates a group, a transaction or a share.

Up to version 3 a request asks for one key, from version 4 on for many of one type. The topic that
a coordinator works on is created when somebody first asks; other implementations say
COORDINATOR_NOT_AVAILABLE meanwhile, here the answer waits for the few milliseconds that it takes.
The same is said while nobody leads the shard, and while there are fewer brokers than the topic is
to have replicas. It takes a right to describe the group or the transactional id; coordinators of
shares are for brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.keys import shard_of
from penstock.model.errors import ErrorCode
from penstock.model.ids import uuid_of
from penstock.model.operations import Operation
from penstock.protocol.generated.find_coordinator import Coordinator, FindCoordinatorResponse
from penstock.server.internal_topics import GROUPS_TOPIC, SHARES_TOPIC, TRANSACTIONS_TOPIC
from penstock.server.rights import may_cluster, may_group, may_transact

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_TOPICS = {0: GROUPS_TOPIC, 1: TRANSACTIONS_TOPIC, 2: SHARES_TOPIC}
_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_SHARES_FROM = 6
"""The first version that knows of share coordinators."""
_BATCHED_FROM = 4


class _Found(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


def handle(
    broker: Broker, call: Call, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Answer from the image, or when the topic is made."""
    topic = _TOPICS.get(request.key_type)
    refused = _refusals(broker, call, request)
    asks = any(key not in refused for key in _keys(call, request))
    if topic is not None and topic not in broker.image.topics.by_name and asks:
        return _create_and_answer(broker, call, request, refused, topic)
    return _answer(broker, call, request, refused)


def _refusals(broker: Broker, call: Call, request: FindCoordinatorRequest) -> dict[str, ErrorCode]:
    """The keys that have no coordinator, or none that the client may know."""
    by_key = ((key, _refused(broker, call, request.key_type, key)) for key in _keys(call, request))
    return {key: error for key, error in by_key if error}


async def _create_and_answer(
    broker: Broker,
    call: Call,
    request: FindCoordinatorRequest,
    refused: dict[str, ErrorCode],
    topic: str,
) -> FindCoordinatorResponse:
    await broker.coordinators.topics.make(topic)
    await broker.settled()  # before, the coordinator would have a name and deny to be it
    return _answer(broker, call, request, refused)


def _keys(call: Call, request: FindCoordinatorRequest) -> list[str]:
    if call.version < _BATCHED_FROM:
        return [request.key]
    return list(dict.fromkeys(request.coordinator_keys))


def _answer(
    broker: Broker, call: Call, request: FindCoordinatorRequest, refused: dict[str, ErrorCode]
) -> FindCoordinatorResponse:
    found = [
        (
            key,
            _Found(refused[key]) if key in refused else _find(broker, call, request.key_type, key),
        )
        for key in _keys(call, request)
    ]
    if call.version >= _BATCHED_FROM:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(
                    key=key,
                    node_id=it.node_id,
                    host=it.host,
                    port=it.port,
                    error_code=it.error,
                    error_message=it.error.message if _is_about_all(request, it.error) else "",
                )
                for key, it in found
            ]
        )
    it = found[0][1]
    return FindCoordinatorResponse(
        error_code=it.error,
        error_message=it.error.message if it.error else "NONE",
        node_id=it.node_id,
        host=it.host,
        port=it.port,
    )


def _is_about_all(request: FindCoordinatorRequest, error: ErrorCode) -> bool:
    """Whether the whole request is wrong, not a key of it: only that has a message, in Kafka."""
    return request.key_type not in _TOPICS or error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _find(broker: Broker, call: Call, key_type: int, key: str) -> _Found:
    topic = broker.image.topics.by_name.get(_TOPICS[key_type])
    if topic is None:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    index = shard_of(key, len(topic.partitions))
    partition = topic.partitions.get(index)
    node = None if partition is None else broker.image.cluster.brokers.get(partition.leader)
    endpoint = None if node is None or node.fenced else node.endpoint(call.listener_name)
    is_opening = (
        node is not None and node.id == broker.node_id and (topic.name, index) not in broker.hosted
    )
    if node is None or endpoint is None or is_opening:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _Found(ErrorCode.NONE, node.id, endpoint.host, endpoint.port)


def _refused(broker: Broker, call: Call, key_type: int, key: str) -> ErrorCode:
    """Why the client gets no coordinator of such a key, if so."""
    if key_type == _GROUP:
        if not may_group(broker, call, Operation.DESCRIBE, key):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif key_type == _TRANSACTION:
        if not may_transact(broker, call, Operation.DESCRIBE, key):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif key_type != _SHARE or call.version < _SHARES_FROM:
        return ErrorCode.INVALID_REQUEST
    elif not may_cluster(broker, call, Operation.CLUSTER_ACTION):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    elif not _names_a_share(key):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _names_a_share(key: str) -> bool:
    """Whether it reads "group:topic id:partition"; the group may hold colons of its own."""
    group, _, partition = key.rpartition(":")
    group, _, topic_id = group.rpartition(":")
    try:
        uuid_of(topic_id)
        int(partition)
    except ValueError:
        return False
    return bool(group.strip())

"""Who leads instead: what goes into an answer that says that this node does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated import fetch, produce, share_acknowledge, share_fetch

if TYPE_CHECKING:
    from penstock.metadata.cluster import Endpoint
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def point_at_leader(
    broker: Broker, call: Call, response: produce.ProduceResponse
) -> produce.ProduceResponse:
    """Add the current leader to each partition that asked the wrong node, from version 10 on."""
    if call.version < 10:
        return response
    leaders: set[int] = set()
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code in _MOVED:
                found = broker.find_partition(topic.topic_id, topic.name, answer.index)
                if found is not None:
                    leaders.add(found.leader)
                    answer.current_leader = produce.LeaderIdAndEpoch(
                        leader_id=found.leader, leader_epoch=found.leader_epoch
                    )
    for node_id, endpoint, rack in _endpoints(broker, call, leaders):
        response.node_endpoints.append(
            produce.NodeEndpoint(node_id=node_id, host=endpoint.host, port=endpoint.port, rack=rack)
        )
    return response


def point_reader_at_leader(
    broker: Broker, call: Call, response: fetch.FetchResponse, with_endpoints: bool = True
) -> fetch.FetchResponse:
    """The same for fetches, from version 16 on. Brokers know each other's endpoints."""
    if call.version < 16:
        return response
    leaders: set[int] = set()
    for topic in response.responses:
        for answer in topic.partitions:
            if answer.error_code in _MOVED:
                found = broker.find_partition(topic.topic_id, topic.topic, answer.partition_index)
                if found is not None:
                    leaders.add(found.leader)
                    answer.current_leader = fetch.LeaderIdAndEpoch(
                        leader_id=found.leader, leader_epoch=found.leader_epoch
                    )
    if not with_endpoints:
        return response
    for node_id, endpoint, rack in _endpoints(broker, call, leaders):
        response.node_endpoints.append(
            fetch.NodeEndpoint(node_id=node_id, host=endpoint.host, port=endpoint.port, rack=rack)
        )
    return response


def point_share_at_leader(
    broker: Broker,
    call: Call,
    response: share_fetch.ShareFetchResponse | share_acknowledge.ShareAcknowledgeResponse,
) -> None:
    """The same for what members of share groups ask."""
    leaders: set[int] = set()
    for topic in response.responses:
        for answer in topic.partitions:
            if answer.error_code in _MOVED:
                found = broker.find_partition(topic.topic_id, "", answer.partition_index)
                if found is not None:
                    leaders.add(found.leader)
                    answer.current_leader.leader_id = found.leader
                    answer.current_leader.leader_epoch = found.leader_epoch
    endpoints = _endpoints(broker, call, leaders)
    if isinstance(response, share_fetch.ShareFetchResponse):
        response.node_endpoints += [
            share_fetch.NodeEndpoint(node_id=node_id, host=at.host, port=at.port, rack=rack)
            for node_id, at, rack in endpoints
        ]
    else:
        response.node_endpoints += [
            share_acknowledge.NodeEndpoint(node_id=node_id, host=at.host, port=at.port, rack=rack)
            for node_id, at, rack in endpoints
        ]


def _endpoints(
    broker: Broker, call: Call, leaders: set[int]
) -> list[tuple[int, Endpoint, str | None]]:
    """Where to find these nodes, on the listener that the client came through."""
    found = []
    for node_id in sorted(leaders):
        node = broker.image.cluster.brokers.get(node_id)
        endpoint = None if node is None else node.endpoint(call.listener_name)
        if node is not None and endpoint is not None:
            found.append((node_id, endpoint, node.rack))
    return found

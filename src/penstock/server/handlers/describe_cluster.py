"""DescribeCluster, versions 0 to 2: the cluster's id and its brokers.

Version 1 brought the question which kind of node is meant, brokers (1) or controllers (2): a
broker's listener answers for brokers only. Version 2 can list fenced brokers as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE
from penstock.model.operations import CLUSTER_OPERATIONS
from penstock.protocol.generated.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from penstock.protocol.generated.describe_cluster import DescribeClusterRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

BROKERS = 1
CONTROLLERS = 2


def handle(broker: Broker, call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Answer from the current image, with the addresses of the listener that was asked."""
    if request.endpoint_type != BROKERS:
        return _wrong_kind(request.endpoint_type)
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=_some_broker(broker),
        brokers=_brokers(broker, call.listener_name, request.include_fenced_brokers),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _wrong_kind(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="This listener describes brokers; controllers are described by theirs",
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"Endpoint type {endpoint_type} is unknown: 1 is brokers, 2 is controllers",
    )


def _brokers(broker: Broker, listener: str, fenced_too: bool) -> list[DescribeClusterBroker]:
    found = []
    for node_id, node in broker.image.cluster.brokers.items():
        endpoint = node.endpoint(listener)
        if endpoint is not None and (fenced_too or not node.fenced):
            found.append(
                DescribeClusterBroker(
                    broker_id=node_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=node.rack,
                    is_fenced=node.fenced,
                )
            )
    return found


def _some_broker(broker: Broker) -> int:
    # Any broker forwards what is meant for the controller, so any may be named; see `metadata`.
    return broker.node_id if broker.node_id in broker.image.cluster.brokers else NO_NODE

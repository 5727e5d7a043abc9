"""DescribeCluster, versions 0 to 2: the cluster's id and its nodes.

Version 1 brought the question which kind of node is meant, brokers (1) or controllers (2): each
kind of listener answers for its own. Version 2 can list fenced brokers as well. Whoever is let in
may know the brokers, for nobody could ask them otherwise; of controllers only operators hear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.operations import CLUSTER_OPERATIONS, Operation
from penstock.model.resources import CLUSTER_NAME, ResourceType
from penstock.protocol.generated.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from penstock.server.rights import may_cluster, rights_bits

if TYPE_CHECKING:
    from penstock.protocol.generated.describe_cluster import DescribeClusterRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

BROKERS = 1
CONTROLLERS = 2
KINDS = {BROKERS: "brokers", CONTROLLERS: "controllers"}


def handle(broker: Broker, call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Answer from the current image, with the addresses of the listener that was asked."""
    listener = call.listener_name
    kind = CONTROLLERS if listener in broker.config.controller_listener_names else BROKERS
    if request.endpoint_type != kind:
        return _wrong_kind(call, kind, request.endpoint_type)
    if kind == CONTROLLERS:
        controller, nodes = broker.quorum.leader, _controllers(broker, listener)
    else:
        # Any broker forwards what is meant for the controller, so any may be named.
        controller = broker.node_id
        nodes = _brokers(broker, listener, request.include_fenced_brokers)
    response = DescribeClusterResponse(
        endpoint_type=kind,
        cluster_id=broker.cluster_id,
        controller_id=controller,
        brokers=nodes,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _rights(broker, call)
    return response


def _rights(broker: Broker, call: Call) -> int:
    """What the caller may do to the cluster, if that may be told."""
    if not may_cluster(broker, call, Operation.DESCRIBE):
        return 0
    return rights_bits(broker, call, ResourceType.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS)


def _wrong_kind(call: Call, kind: int, wanted: int) -> DescribeClusterResponse:
    if wanted not in KINDS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Endpoint type {wanted} is unknown: 1 is brokers, 2 is controllers",
        )
    return DescribeClusterResponse(
        # Version 0 cannot have meant anything but brokers, and knows no better error.
        error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
        if call.version
        else ErrorCode.INVALID_REQUEST,
        error_message=f"This listener describes {KINDS[kind]}; ask {KINDS[wanted]} at theirs",
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


def _controllers(broker: Broker, listener: str) -> list[DescribeClusterBroker]:
    return [
        DescribeClusterBroker(broker_id=node_id, host=endpoint.host, port=endpoint.port)
        for node_id, node in broker.image.cluster.controllers.items()
        for endpoint in node.endpoints
        if endpoint.name == listener
    ]

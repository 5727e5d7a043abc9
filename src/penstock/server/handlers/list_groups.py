"""ListGroups, versions 0 to 5: the groups that this node coordinates.

A client asks every node. From version 4 on it may want groups in certain states, and from version
5 on of certain types. While a shard is being loaded the list would not be whole, and there is none.
Who may describe the cluster sees all groups; others see those that they may describe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.listing import list_groups
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import ResourceType
from penstock.protocol.generated.list_groups import ListGroupsResponse
from penstock.server.rights import may_cluster
from penstock.server.topic_rights import shown

if TYPE_CHECKING:
    from penstock.protocol.generated.list_groups import ListGroupsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """Look through all shards."""
    runtime = broker.coordinators.groups
    if runtime.loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    groups = [group for _, shard in runtime.shards() for group in list_groups(shard, states, types)]
    if not may_cluster(broker, call, Operation.DESCRIBE, tells=False):
        groups = [it for it in groups if shown(broker, call, ResourceType.GROUP, it.group_id)]
    return ListGroupsResponse(groups=groups)

"""AlterPartitionReassignments, versions 0 and 1: partitions move to other brokers.

The answer comes when the moves are decided, not when they are complete. Version 1 can forbid that
the number of replicas changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server import audit
from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from penstock.protocol.generated.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(
    broker: Broker, call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Forward to the controller, which begins the moves or calls them off."""
    response: AlterPartitionReassignmentsResponse = await forward(broker, call, request)
    topics = [
        result.name
        for result in response.responses
        if any(not each.error_code for each in result.partitions)
    ]
    if topics:
        audit.changed(call, "reassign partitions", {"topics": topics})
    return response

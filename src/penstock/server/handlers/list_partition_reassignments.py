"""ListPartitionReassignments, version 0: which partitions are moving, and from where to where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: ListPartitionReassignmentsRequest
) -> Awaitable[ListPartitionReassignmentsResponse]:
    """Forward to the controller: its answer includes what it has just decided."""
    return forward(broker, call, request)

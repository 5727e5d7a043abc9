"""ElectLeaders, versions 0 to 2: give partitions their preferred leader, or any at all.

Version 0 knows the preferred leader only. An unclean election lets a replica lead that may lack
records, where there is no leader and nobody is left to ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server import audit
from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from penstock.protocol.generated.elect_leaders import (
        ElectLeadersRequest,
        ElectLeadersResponse,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(broker: Broker, call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Forward to the controller, which elects."""
    response: ElectLeadersResponse = await forward(broker, call, request)
    topics = [
        result.topic
        for result in response.replica_election_results
        if any(not each.error_code for each in result.partition_result)
    ]
    if topics:
        audit.changed(call, "elect leaders", {"topics": topics, "kind": request.election_type})
    return response

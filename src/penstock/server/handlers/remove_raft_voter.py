"""RemoveRaftVoter, version 0: let a controller vote no longer.

It names the voter's directory too, so that the one that took its place on a new disk is not meant.
A leader that removes itself leads until that is committed, and hands over then.
"""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from penstock.protocol.generated.remove_raft_voter import RemoveRaftVoterRequest
from penstock.server import audit
from penstock.server.forwarding import forward_to_quorum

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(broker: Broker, call: Call, request: RemoveRaftVoterRequest) -> Any:
    """Answered by the leader of the quorum, to which brokers pass it on."""
    response = forward_to_quorum(broker, call, request)
    if isawaitable(response):
        response = await response
    if not response.error_code:
        audit.changed(call, "remove voter", {"voter": request.voter_id})
    return response

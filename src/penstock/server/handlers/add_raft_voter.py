"""AddRaftVoter, versions 0 to 1: let one more controller vote.

The leader of the quorum asks the new voter whether it can be reached, and sees that it has copied
the log, before it writes it down. The answer waits until that is committed; since version 1 who
asks may say that it shall not (`ack_when_committed`).
"""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from penstock.protocol.generated.add_raft_voter import AddRaftVoterRequest
from penstock.server import audit
from penstock.server.forwarding import forward_to_quorum

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(broker: Broker, call: Call, request: AddRaftVoterRequest) -> Any:
    """Answered by the leader of the quorum, to which brokers pass it on."""
    response = forward_to_quorum(broker, call, request)
    if isawaitable(response):
        response = await response
    if not response.error_code:
        audit.changed(call, "add voter", {"voter": request.voter_id})
    return response

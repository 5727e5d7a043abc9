"""AddRaftVoter, versions 0 to 1: let one more controller vote.

The leader of the quorum asks the new voter whether it can be reached, and sees that it has copied
the log, before it writes it down. The answer waits until that is committed; since version 1 who
asks may say that it shall not (`ack_when_committed`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocol.generated.add_raft_voter import AddRaftVoterRequest
from penstock.server.forwarding import forward_to_quorum

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: AddRaftVoterRequest) -> Any:
    """Answered by the leader of the quorum, to which brokers pass it on."""
    return forward_to_quorum(broker, call, request)

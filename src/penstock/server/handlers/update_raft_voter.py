"""UpdateRaftVoter: a voter listens elsewhere, or supports other versions than the log says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocol.generated.update_raft_voter import UpdateRaftVoterRequest

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: UpdateRaftVoterRequest) -> Any:  # noqa: ARG001
    """Answered by the leader of the quorum, when it has written it down."""
    return broker.quorum.answer(request)

"""Vote: another node asks for this one's vote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocol.generated.vote import VoteRequest

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: VoteRequest) -> Any:  # noqa: ARG001
    """Answered by the quorum's own machine, when what it promises is durable."""
    return broker.quorum.answer(request)

"""BeginQuorumEpoch: a leader says that it leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocol.generated.begin_quorum_epoch import BeginQuorumEpochRequest

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: BeginQuorumEpochRequest) -> Any:  # noqa: ARG001
    """Answered by the quorum's own machine, when what it promises is durable."""
    return broker.quorum.answer(request)

"""Fetch on a controller's listener: members of the quorum copy the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocol.generated.fetch import FetchRequest

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: FetchRequest) -> Any:  # noqa: ARG001
    """Records, or where the two logs part, or a snapshot to take first."""
    return broker.quorum.answer(request)

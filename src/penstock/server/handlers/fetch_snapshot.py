"""FetchSnapshot: a member takes a snapshot of the metadata, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocol.generated.fetch_snapshot import FetchSnapshotRequest

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: FetchSnapshotRequest) -> Any:  # noqa: ARG001
    """Answered by the quorum's own machine, when what it promises is durable."""
    return broker.quorum.answer(request)

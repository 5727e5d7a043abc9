"""CreatePartitions, versions 0 to 3: a topic gets more partitions, never fewer.

Each topic of the request succeeds or fails by itself. The controller places the new partitions
unless the request says where they go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: CreatePartitionsRequest
) -> Awaitable[CreatePartitionsResponse]:
    """Forward to the controller; the answer comes when the partitions are durable."""
    return forward(broker, call, request)

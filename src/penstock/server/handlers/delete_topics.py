"""DeleteTopics, versions 1 to 6: each topic is deleted or refused by itself.

Topics are named up to version 5; from version 6 on by name or by id. The controller decides. A
client sees the topic gone when the answer comes; its files go a little later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: DeleteTopicsRequest
) -> Awaitable[DeleteTopicsResponse]:
    """Forward to the controller; the answer comes when the removal is durable."""
    return forward(broker, call, request)

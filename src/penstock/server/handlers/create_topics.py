"""CreateTopics, versions 2 to 7: each topic is created or refused by itself.

The controller decides. The answer comes when the topics are committed, and from version 5 on it
says with which configuration; this broker hosts its part of them by then, unless there are so
many that it opens them in slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: CreateTopicsRequest
) -> Awaitable[CreateTopicsResponse]:
    """Forward to the controller; the answer comes when the topics are durable."""
    return forward(broker, call, request)

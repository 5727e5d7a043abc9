"""DescribeQuorum, versions 0 to 2: who votes on the metadata, who leads, and how far each one is.

Only the metadata partition can be asked about. From version 2 on directories and addresses of the
voters are told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.describe_quorum import (
        DescribeQuorumRequest,
        DescribeQuorumResponse,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: DescribeQuorumRequest
) -> Awaitable[DescribeQuorumResponse]:
    """Forward to the controller: only the leader of the quorum knows how far the others are."""
    return forward(broker, call, request)

"""SaslHandshake: choose how to prove who one is. See `server/login.py`.

Versions 0 and 1: after 0, bare tokens follow instead of SaslAuthenticate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: Any
) -> SaslHandshakeResponse | Awaitable[SaslHandshakeResponse]:
    gate = call.connection.gate
    if gate is None or gate.login is None or call.enveloped:
        # This listener asks for no such proof.
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    answer: Awaitable[SaslHandshakeResponse] = gate.login.handshake(broker, call, request)
    return answer

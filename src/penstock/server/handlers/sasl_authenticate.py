"""SaslAuthenticate: one step of the proof. See `server/login.py`.

Versions 0 to 2: from 1, the answer says for how long the proof holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.sasl_authenticate import SaslAuthenticateResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: Any
) -> SaslAuthenticateResponse | Awaitable[SaslAuthenticateResponse]:
    gate = call.connection.gate
    if gate is None or gate.login is None or call.enveloped:
        # This listener asks for no such proof.
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    answer: Awaitable[SaslAuthenticateResponse] = gate.login.authenticate(broker, call, request)
    return answer

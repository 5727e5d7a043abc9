"""Envelope: a broker passes on what one of its clients asked, for the controller to decide.

The request lies inside as it came, header and all, and its answer goes back the same way. Only what
a broker may pass on is opened: a member of the quorum speaks for itself. Only who may act for the
cluster is heard at all (`server/access.py`), and what lies inside is judged by the rights of the
client that the broker names: a broker that would let everything pass changes nothing.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.envelope import EnvelopeRequest, EnvelopeResponse
from penstock.protocol.headers import read_request_header
from penstock.protocol.primitives import ProtocolError
from penstock.protocol.registry import API
from penstock.raft.driver import NotLeader
from penstock.server.apis import CONTROLLER_HANDLERS, FORWARDED
from penstock.server.call import Call
from penstock.server.dispatch import encode
from penstock.server.senders import UnknownSender, sender_of

if TYPE_CHECKING:
    from penstock.server.broker import Broker

_LENGTH_SIZE = 4


async def handle(broker: Broker, call: Call, request: EnvelopeRequest) -> EnvelopeResponse:
    """The answer to what lies inside."""
    data = memoryview(request.request_data)
    try:
        api_key, version, correlation_id, client_id, body_at = read_request_header(data)
        if api_key not in FORWARDED or version not in API[api_key].codec_versions:
            return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
        inner, _ = API[api_key].request_class.read(data, version, body_at)
        sender = sender_of(request.request_principal, request.client_host_address)
    except UnknownSender:
        return EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    except ProtocolError:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    within = Call(call.connection, api_key, version, correlation_id, client_id, sender)
    try:
        answer: Any = CONTROLLER_HANDLERS[api_key]()(broker, within, inner)
        if inspect.isawaitable(answer):
            answer = await answer
    except NotLeader:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    frame = encode(API[api_key], within, answer)
    assert isinstance(frame, bytearray), "answers to what is passed on hold no slices of files"
    return EnvelopeResponse(response_data=bytes(frame[_LENGTH_SIZE:]))

"""The client of a broker, as the broker names it to the controller: Kafka's own layout."""

from __future__ import annotations

import socket
import struct

from penstock.protocol.generated.principal_data import DefaultPrincipalData
from penstock.protocol.primitives import ProtocolError
from penstock.security.principal import Principal
from penstock.server.call import Sender

_VERSION = struct.Struct(">h")


def packed_principal(principal: Principal) -> bytes:
    """A principal with the version of its layout in front."""
    out = bytearray(_VERSION.pack(0))
    DefaultPrincipalData(
        type=principal.kind, name=principal.name, token_authenticated=principal.by_token
    ).write(0, out)
    return bytes(out)


def packed_host(host: str) -> bytes:
    """An address as four or sixteen bytes."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_pton(family, host.partition("%")[0])
        except OSError:
            continue
    return b""  # a client without an address of its own, such as a simulated one


def sender_of(principal: bytes | None, host: bytes) -> Sender:
    """What an envelope says of its sender; ProtocolError if that cannot be read."""
    data = memoryview(principal or b"")
    if len(data) < _VERSION.size or _VERSION.unpack_from(data)[0] != 0:
        raise ProtocolError("an envelope names its sender in a layout that nobody knows")
    told, _ = DefaultPrincipalData.read(data, 0, _VERSION.size)
    return Sender(Principal(told.name, told.type, told.token_authenticated), _unpacked(host))


def _unpacked(host: bytes) -> str:
    family = {4: socket.AF_INET, 16: socket.AF_INET6}.get(len(host))
    return "" if family is None else socket.inet_ntop(family, host).removeprefix("::ffff:")

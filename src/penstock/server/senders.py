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


class UnknownSender(ProtocolError):
    """An envelope does not say, in a way that can be read, for whom it was sent."""


def sender_of(principal: bytes | None, host: bytes) -> Sender:
    """What an envelope says of its sender. UnknownSender if that cannot be read, ProtocolError if
    only the address cannot."""
    return Sender(_principal(memoryview(principal or b"")), _host(host))


def _principal(data: memoryview) -> Principal:
    if len(data) < _VERSION.size or _VERSION.unpack_from(data)[0] != 0:
        raise UnknownSender("an envelope names its sender in a layout that nobody knows")
    try:
        told, end = DefaultPrincipalData.read(data, 0, _VERSION.size)
    except ProtocolError as problem:
        raise UnknownSender(f"the name of an envelope's sender: {problem}") from problem
    if end != len(data) or not told.type or not told.name:
        raise UnknownSender("an envelope names nobody as its sender, or more than one")
    return Principal(told.name, told.type, told.token_authenticated)


def _host(packed: bytes) -> str:
    if not packed:
        return ""  # a client without an address of its own, such as a simulated one
    family = {4: socket.AF_INET, 16: socket.AF_INET6}.get(len(packed))
    if family is None:
        raise ProtocolError(f"an envelope's sender has an address of {len(packed)} bytes")
    return socket.inet_ntop(family, packed).removeprefix("::ffff:")

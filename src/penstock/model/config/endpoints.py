"""Addresses as configuration writes them: HOST:PORT, ID@HOST:PORT, NAME://HOST:PORT."""

from __future__ import annotations

import re
from typing import NamedTuple

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""In the order of the numbers by which nodes tell each other of them."""


def security_number(protocol: str) -> int:
    """A security protocol as registrations name it."""
    return SECURITY_PROTOCOLS.index(protocol)


class Voter(NamedTuple):
    """A member of the static controller quorum."""

    node_id: int
    host: str
    port: int


class Listener(NamedTuple):
    """A socket that the node opens, or an address that it tells its clients.

    An empty host means every interface. `protocol` is one of SECURITY_PROTOCOLS.
    """

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


# Patterns stay texts until first used: compiling them all would cost a start some milliseconds.
_ENDPOINT = r"(\[[0-9a-zA-Z:.%]+\]|[0-9a-zA-Z\-._%]+):([0-9]{1,5})"
_LISTENER = r"([^:/\s]+)://(\[[0-9a-zA-Z:.%]*\]|[0-9a-zA-Z\-._%:]*):([0-9]{1,5})"
_PORT_LAST = 65535


def endpoint_of(text: str) -> tuple[str, int] | None:
    """Host and port of HOST:PORT, with IPv6 in brackets; None if the text is something else."""
    match = re.fullmatch(_ENDPOINT, text)
    if match is None or int(match[2]) > _PORT_LAST:
        return None
    return match[1].strip("[]"), int(match[2])


def voter_of(text: str) -> Voter | None:
    """ID@HOST:PORT; None if the text is something else."""
    number, at, address = text.partition("@")
    endpoint = endpoint_of(address)
    if not at or endpoint is None or not re.fullmatch(r"[-+]?[0-9]{1,10}", number):
        return None
    return Voter(int(number), *endpoint)


def listener_parts(text: str) -> tuple[str, str, int] | None:
    """Name in upper case, host and port of NAME://HOST:PORT; None if the text is none."""
    match = re.fullmatch(_LISTENER, text)
    if match is None or int(match[3]) > _PORT_LAST:
        return None
    return match[1].upper(), match[2].strip("[]"), int(match[3])

"""Where brokers are, as people write it, and what to say when nobody is there."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.failure import UNREACHABLE, USAGE, Failure

PORT_DEFAULT = 9092
KNOCK_SECONDS_MAX = 3.0
"""How long a broker may take to accept a connection before the next is tried."""


def address_of(server: str) -> tuple[str, int]:
    """Host and port out of `[PROTOCOL://]HOST[:PORT]`; brackets keep an IPv6 address together."""
    server = server.strip().rpartition("://")[2]
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):
        return server.strip("[]"), PORT_DEFAULT
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise Failure(
            f"{server!r} is not an address: {port!r} is no port",
            "write HOST:PORT, such as localhost:9092",
            USAGE,
        )
    return host.strip("[]"), int(port)


def nobody_there(reasons: Sequence[str]) -> Failure:
    """That none of the brokers takes a connection, and what to do."""
    from penstock.cli.options import BOOTSTRAP_VARIABLE

    return Failure(
        "cannot reach a broker at " + "; ".join(reasons),
        f"start one with `penstock up`, or name another with -b HOST:PORT or {BOOTSTRAP_VARIABLE}",
        UNREACHABLE,
    )

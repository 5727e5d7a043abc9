"""Whether a pipeline's brokers are there at all, before Spark is started to find out."""

from __future__ import annotations

import socket

from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.model import Pipeline
from penstock.pipeline.spec.needs import needs_of

KNOCK_SECONDS_MAX = 3.0
PORT_DEFAULT = 9092


def nobody_there(pipeline: Pipeline) -> Problem | None:
    """What to tell if none of the brokers takes a connection; None if one does, or none is used."""
    if "kafka" not in needs_of(pipeline):
        return None
    reasons = []
    for server in pipeline.bootstrap.split(","):
        host, port = address_of(server)
        try:
            socket.create_connection((host, port), KNOCK_SECONDS_MAX).close()
            return None
        except OSError as refusal:
            reasons.append(f"{host}:{port}: {refusal.strerror or refusal}")
    return Problem(
        f"no broker answers ({'; '.join(reasons)})",
        "`penstock up` starts one on this machine; `bootstrap` in the file says where others are. "
        "With on_error: retry a pipeline waits for them.",
        pipeline.place,
    )


def address_of(server: str) -> tuple[str, int]:
    """Host and port of `host:port`, `[::1]:9092` or a host alone."""
    host, colon, port = server.strip().rpartition(":")
    if not colon or not port.isdigit():
        return server.strip().strip("[]"), PORT_DEFAULT
    return host.strip("[]"), int(port)

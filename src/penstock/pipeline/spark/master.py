"""Where Spark does the work: this machine or a cluster."""

from __future__ import annotations

import os
import re
import socket

from penstock.pipeline.problem import Problem

LOCAL = "local[*]"
FORMS = "local[N], local[*], spark://HOST:PORT, k8s://URL or yarn"
ANSWER_SECONDS_MAX = 5.0

_LOCAL = re.compile(r"local(?:\[(\*|[1-9]\d*)(?:,\s*\d+)?\])?")
_STANDALONE = re.compile(r"spark://([^/\s:,]+:\d+(?:,[^/\s:,]+:\d+)*)")
_OTHER = re.compile(r"yarn|k8s://\S+|local-cluster\[\d+,\s*\d+,\s*\d+\]")


def local_cores(master: str) -> int | None:
    """How many tasks run at once on this machine; None if `master` is a cluster."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)


def check_master(master: str) -> None:
    """Refuse what Spark cannot work on, sooner and in plainer words than Spark does."""
    standalone = _STANDALONE.fullmatch(master)
    if standalone:
        _meet(standalone[1].split(","))
    elif not (_LOCAL.fullmatch(master) or _OTHER.fullmatch(master)):
        raise Problem(f"{master!r} is no master that Spark knows", f"expected {FORMS}")


def _meet(places: list[str]) -> None:
    """Whether any master of a standalone cluster listens: Spark itself would wait for minutes."""
    reasons = []
    for place in places:
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host, int(port)), ANSWER_SECONDS_MAX).close()
            return
        except (OSError, OverflowError) as refusal:
            reasons.append(f"{place} ({refusal})")
    raise Problem(
        f"no Spark master answers at {', '.join(reasons)}",
        "see whether it runs, and whether this machine may reach it",
    )

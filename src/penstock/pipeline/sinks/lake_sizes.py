"""Sizes as people write them: 128m, 1g, 65536."""

from __future__ import annotations

import re

from penstock.pipeline.problem import Place, Problem

_SIZE = re.compile(r"(\d{1,15})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def size_bytes(text: str, key: str, place: Place | None = None) -> int:
    """The bytes of a size: units are powers of 1024."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise Problem(f"{key} is {text!r}, which is no size", "Write one such as 128m.", place)
    return int(found[1]) << _UNITS[found[2].lower()]


def size_text(count: int) -> str:
    """Bytes for people: `512 B`, `3.4 MB`."""
    value, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"

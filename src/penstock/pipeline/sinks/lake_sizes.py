"""Sizes for people."""

from __future__ import annotations


def size_text(count: int) -> str:
    """Bytes for people: `512 B`, `3.4 MB`."""
    value, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"

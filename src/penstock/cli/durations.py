"""Spans of time, as people write and read them."""

from __future__ import annotations

import re

from penstock.cli.failure import USAGE, Failure
from penstock.cli.positions import UNIT_MS

_ISO = re.compile(
    r"P(?:(\d{1,12})W)?(?:(\d{1,12})D)?"
    r"(?:T(?:(\d{1,12})H)?(?:(\d{1,12})M)?(?:(\d{1,12}(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)
_ISO_SECONDS = (604_800, 86_400, 3_600, 60, 1)
_SHORT = re.compile(r"(\d{1,12})(ms|s|m|h|d)", re.IGNORECASE)


def duration_ms(text: str, option: str) -> int:
    """Milliseconds of `P1DT2H`, as Kafka's tools want it, or of 90s, 15m, 2h or 1d."""
    word = text.strip()
    if iso := _ISO.fullmatch(word):
        parts = iso.groups(default="0")
        if any(part is not None for part in iso.groups()):
            seconds = sum(
                float(number) * unit for number, unit in zip(parts, _ISO_SECONDS, strict=True)
            )
            return round(seconds * 1000)
    if short := _SHORT.fullmatch(word):
        return int(short[1]) * UNIT_MS[short[2].lower()]
    raise Failure(
        f"{option} {text!r} is not a duration", "write one such as 90s, 15m, 2h or PT1H30M", USAGE
    )


def age_text(seconds: float | None) -> str | None:
    """An age for people: `0.4s`, `12s`, `3m05s`, `2h10m`, `4d06h`; None where it is not known."""
    if seconds is None:
        return None
    if seconds < 10:
        return f"{seconds:g}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"

"""How a record says when it wants to be delivered, on topics that heed it.

A value is a number in decimal digits, or an integer of 8 bytes in big-endian, as a Java client's
serializer for longs writes it. The two cannot be taken for each other: eight digits, read as an
integer, would stand for a time some hundred million years ahead.
"""

from __future__ import annotations

DELIVER_AT = "penstock-deliver-at"
"""Header: the time of delivery, in milliseconds since 1970."""

DELAY_MS = "penstock-delay-ms"
"""Header: how many milliseconds after its arrival at the broker the record is delivered."""

MARK = b"penstock-de"
"""What both names begin with, and hardly anything else does."""


class BadDelay(ValueError):
    """A record says something about its delivery that makes no sense, or asks for too much."""


def due_of(headers: list[tuple[str, bytes | None]], now: int, ahead_max: int) -> int | None:
    """When a record is due; None if that is now. BadDelay if its headers do not say it well."""
    said = [(name, value) for name, value in headers if name in (DELIVER_AT, DELAY_MS)]
    if not said:
        return None
    if len(said) > 1:
        raise BadDelay(f"more than one header of {DELIVER_AT} and {DELAY_MS}: one is enough")
    name, value = said[0]
    number = _number(name, value)
    due = number if name == DELIVER_AT else now + number
    if due - now > ahead_max:
        raise BadDelay(f"{name} lies {due - now} ms ahead, and {ahead_max} ms is the most here")
    return due if due > now else None


def _number(name: str, value: bytes | None) -> int:
    if value is not None and value.isdigit() and len(value) <= 19:
        return int(value)
    if value is not None and len(value) == 8 and value[0] == 0:
        return int.from_bytes(value, "big")
    is_negative = value is not None and (
        (value[:1] == b"-" and value[1:].isdigit()) or (len(value) == 8 and value[0] >= 0x80)
    )
    wrong = "is negative" if is_negative else "is no number"
    raise BadDelay(f"{name} {wrong}: expected milliseconds in decimal digits, or in 8 bytes")

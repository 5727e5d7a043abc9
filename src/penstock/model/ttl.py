"""How a record says for how long it is worth delivering, on topics that heed it.

The header's value is a number of milliseconds in decimal digits, or an integer of 8 bytes in
big-endian, as a Java client's serializer for longs writes it. It counts from the record's own
timestamp. A header that says nothing of the kind does not count: the record is delivered.
"""

from __future__ import annotations

from collections.abc import Iterable

TTL_MS = "penstock-ttl-ms"
"""Header: how many milliseconds after its timestamp a record is of no use any more."""

TTL_ENABLE = "penstock.ttl.enable"
"""The key of a topic that heeds it."""


def expiry_of(headers: Iterable[tuple[str, bytes | None]], timestamp: int) -> int | None:
    """From when on a record is not delivered; None if it has no end, or no time to count from.

    Of several headers the last one counts, as with all headers of Kafka's.
    """
    if timestamp < 0:
        return None
    found: int | None = None
    for name, value in headers:
        if name == TTL_MS:
            found = _milliseconds(value)
    return None if found is None else timestamp + found


def _milliseconds(value: bytes | None) -> int | None:
    if value is None:
        return None
    if value.isdigit() and len(value) <= 19:
        return int(value)
    if len(value) == 8 and value[0] == 0:  # digits begin with another byte
        return int.from_bytes(value, "big")
    return None

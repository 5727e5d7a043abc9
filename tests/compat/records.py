"""What each client is asked to carry, and what must come back."""

from __future__ import annotations

from typing import NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Far apart, and in the recent past, so that no retention and no clock check touches them.
TIMESTAMP_STEP_MS = 10_000


class Expected(NamedTuple):
    """One record as a client sends it and must read it back."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    timestamp: int


def sample(codec: str, first_timestamp: int, count: int = 20) -> list[Expected]:
    """Records of uneven sizes, compressible and not, each with two headers."""
    return [
        Expected(
            key=f"{codec}-{number}".encode(),
            value=b"\x00" + codec.encode() * (1 + number * 37),
            headers=(("codec", codec.encode()), ("number", str(number).encode())),
            timestamp=first_timestamp + number * TIMESTAMP_STEP_MS,
        )
        for number in range(count)
    ]

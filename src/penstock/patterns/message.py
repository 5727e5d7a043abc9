"""What a handler is given."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.ttl import expiry_of

DIGITS_MAX = 19  # of a number that 64 bits hold

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One record. A later try of it looks the same, but for `attempt`.

    `topic`, `partition`, `offset` and `timestamp_ms` are those of the record that was produced,
    also when it waited in a retry topic in between.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = -1
    """Milliseconds since 1970; -1 if it has none."""
    attempt: int = 1
    """1 for the first try."""
    identity: str = ""
    """What a worker with `once` knows it by; empty without."""

    def header(self, name: str) -> bytes | None:
        """The value of the last header of that name; None if there is none."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    def number(self, name: str) -> int | None:
        """A header that holds a number in decimal digits; None if there is none, or it does not."""
        text = self.header(name) or b""
        return int(text) if text.isdigit() and len(text) <= DIGITS_MAX else None

    @property
    def expires_ms(self) -> int | None:
        """When it is too old to be handled, if its header `penstock-ttl-ms` says so."""
        return expiry_of(self.headers, self.timestamp_ms)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offset {self.offset}"

"""A dead letter, as it is read from its topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.pipeline.sinks.dead_letters import PREFIX, REASON, TOPIC

COUNT = "penstock-redrive-count"
"""The header that says how often a record was sent through again."""


class Header(NamedTuple):
    """One header of a record."""

    name: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that could not be read, with what is known about it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]

    @staticmethod
    def of(message: Any) -> Letter:
        """The letter in a message of confluent-kafka."""
        return Letter(
            message.partition(),
            message.offset(),
            message.key(),
            message.value(),
            tuple(Header(*each) for each in message.headers() or ()),
        )

    @property
    def reason(self) -> str:
        """Why it could not be read."""
        return self._header(REASON)

    @property
    def topic(self) -> str:
        """The topic that it came from; empty if it did not come from one."""
        return self._header(TOPIC)

    @property
    def file(self) -> str:
        """The file that it came from; empty if it did not come from one."""
        return self._header(PREFIX + "file")

    def headers_again(self) -> list[Header]:
        """The headers that the record had, and how often it has been sent through again."""
        kept = [
            each for each in self.headers if not each.name.startswith(PREFIX) and each.name != COUNT
        ]
        before = self._header(COUNT)
        count = int(before) + 1 if before.isdecimal() else 1
        return [*kept, Header(COUNT, str(count).encode())]

    def _header(self, wanted: str) -> str:
        for name, value in self.headers:
            if name == wanted and value is not None:
                return value.decode("utf-8", "replace")
        return ""

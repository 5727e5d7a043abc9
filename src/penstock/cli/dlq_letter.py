"""A dead letter, as it is read from its topic: whose it was, and what went wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from penstock.model import dead_letters as names
from penstock.model import delays

Header = tuple[str, bytes | None]

DELAY = delays.DELAY_MS
"""A wait that is over. Sent again with it, the record would wait once more."""

PIPELINE = f"{names.PREFIX}pipeline"

UNKNOWN = "unknown"
"""The reason of a letter that tells none."""

_KAFKA_REASONS = {
    "Offset rejected by client.": names.REJECTED,
    "Offset delivery count exceeded the threshold.": names.DELIVERIES,
}
"""Kafka has sentences where we have words."""


class Source(NamedTuple):
    """The record that died; -1 for what is not known."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


@dataclass(frozen=True)
class Letter:
    """A dead letter and where it lies."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]

    @staticmethod
    def of(message: Any) -> Letter:
        """The letter in a message of confluent-kafka's."""
        return Letter(
            message.partition(),
            message.offset(),
            message.timestamp()[1],
            message.key(),
            message.value(),
            message.headers() or (),
        )

    @cached_property
    def told(self) -> dict[str, str]:
        """What the letter's headers tell. The last of a name counts: ours come after a record's."""
        return {
            name: value.decode("utf-8", "replace")
            for name, value in self.headers
            if value is not None and (names.is_error_header(name) or name == names.REDRIVES)
        }

    @property
    def source(self) -> Source:
        """Where the record was; an empty topic if it came from none."""
        topic = self.told.get(names.TOPIC) or self.told.get(f"{names.PREFIX}topic", "")
        return Source(topic, self._number("partition"), self._number("offset"))

    @property
    def group(self) -> str:
        """Whose record it was: a group's, or a pipeline's."""
        return self.told.get(names.GROUP) or self.pipeline

    @property
    def pipeline(self) -> str:
        """The pipeline that could not read it; empty if it was none."""
        return self.told.get(PIPELINE, "")

    @property
    def reason(self) -> str:
        """What went wrong, in a word; that which a message begins with, if nobody wrote one."""
        word = self.told.get(names.REASON) or _KAFKA_REASONS.get(self.message)
        return word or self.message.partition(":")[0].strip() or UNKNOWN

    @property
    def message(self) -> str:
        """What went wrong, in a sentence; empty if nobody wrote one."""
        return self.told.get(names.MESSAGE, "")

    @property
    def deliveries(self) -> int | None:
        """How often it was delivered; None where nobody counted."""
        count = self._number("delivery.count")
        return None if count < 0 else count

    @property
    def redrives(self) -> int:
        """How often it was sent back before it died this time."""
        count = self.told.get(names.REDRIVES, "")
        return int(count) if _is_number(count) else 0

    @property
    def time_ms(self) -> int:
        """When the record was given up."""
        for name in (names.TIME, f"{names.KAFKA_PREFIX}timestamp"):
            if _is_number(text := self.told.get(name, "")):
                return int(text)
        return self.timestamp

    @property
    def is_copy(self) -> bool:
        """Whether key and value are here; else they must be read at the source.

        Kafka does not say. Who finds neither in a letter of its loses nothing by looking: a record
        without both is found without both.
        """
        said = self.told.get(names.COPIED)
        if said is not None:
            return said != "false"
        return names.OFFSET not in self.told or not (self.key is None and self.value is None)

    def headers_again(self, headers: Sequence[Header]) -> list[Header]:
        """A record's `headers` as they go back: without its death, and with a count of returns."""
        gone = (names.REDRIVES, DELAY)
        kept = [one for one in headers if not names.is_error_header(one[0]) and one[0] not in gone]
        return [*kept, (names.REDRIVES, str(self.redrives + 1).encode())]

    @property
    def identity(self) -> bytes:
        """The same for two letters of one record. A broker that dies while it buries a record may
        bury it twice, and two groups may give up the same one."""
        digest = hashlib.blake2b(str(self.source).encode(), digest_size=16)
        for part in (self.key, self.value):
            digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
        return digest.digest()

    def _number(self, name: str) -> int:
        for prefix in (names.KAFKA_PREFIX, names.PREFIX):
            text = self.told.get(prefix + name, "")
            if _is_number(text):
                return int(text)
        return -1


def _is_number(text: str) -> bool:
    """Whether it is a number that 64 bits can hold: headers may come from anybody."""
    return text.isascii() and text.isdigit() and len(text) < 19

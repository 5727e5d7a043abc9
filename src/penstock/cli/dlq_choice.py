"""Which dead letters are meant: by time, reason, key, source, group, or one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.cli.dlq_letter import Letter
from penstock.cli.failure import USAGE, Failure
from penstock.cli.positions import Kind, position_of

FOR_ALL_TIME = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Choice:
    """Letters that fit all that is said; nothing said means all of them."""

    since_ms: int = 0
    until_ms: int = FOR_ALL_TIME
    """Exclusive."""
    reason: re.Pattern[str] | None = None
    key: bytes | None = None
    source: str = ""
    group: str = ""
    places: frozenset[tuple[int, int]] = frozenset()
    """Partitions and offsets of single letters; none for all."""

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self == Choice()

    def takes(self, letter: Letter) -> bool:
        """Whether this letter is meant."""
        return (
            self.since_ms <= letter.time_ms < self.until_ms
            and (not self.places or (letter.partition, letter.offset) in self.places)
            and (self.key is None or letter.key == self.key)
            and (not self.source or letter.source.topic == self.source)
            and (not self.group or letter.group == self.group)
            and (self.reason is None or self._has_reason(self.reason, letter))
        )

    @staticmethod
    def _has_reason(pattern: re.Pattern[str], letter: Letter) -> bool:
        return bool(pattern.search(letter.reason) or pattern.search(letter.message))


def choice_of(
    *,
    since: str | None,
    until: str | None,
    reason: str | None,
    key: str | None,
    source: str | None,
    group: str | None,
    at: Iterable[str] | None,
    now_ms: int,
) -> Choice:
    """The choice that the options name; `Failure` where one of them cannot be understood."""
    return Choice(
        0 if since is None else _time_of(since, now_ms, "--since"),
        FOR_ALL_TIME if until is None else _time_of(until, now_ms, "--until"),
        None if reason is None else _pattern_of(reason),
        None if key is None else key.encode(),
        source or "",
        group or "",
        frozenset(_place_of(word) for word in at or ()),
    )


def _time_of(text: str, now_ms: int, option: str) -> int:
    position = position_of(text, now_ms, option)
    if position.kind is not Kind.TIME:
        raise Failure(
            f"{option} {text!r} is not a time",
            "write one such as 2026-11-15T09:30, or 2h for two hours ago",
            USAGE,
        )
    return position.number


def _pattern_of(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as wrong:
        raise Failure(
            f"--reason {text!r} is not a regular expression: {wrong}",
            "escape what is meant literally with \\",
            USAGE,
        ) from None


def _place_of(word: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,9}):(\d{1,18})", word.strip())
    if found is None:
        raise Failure(
            f"--at {word!r} is not a letter's place",
            "write PARTITION:OFFSET, such as 0:17; `penstock dlq show` has them",
            USAGE,
        )
    return int(found[1]), int(found[2])

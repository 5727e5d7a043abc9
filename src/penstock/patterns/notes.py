"""What is noted beside a committed offset, for whoever takes the partition next.

Kafka keeps a line of text with every committed offset, and replaces both at once. Ours tells
whether the worker that wrote it gave the partition back in order, and how often the handling of a
record was begun and not survived. So a record that kills every process that touches it is found,
on any server, without any other store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_WORD = "penstock-patterns"
BEGUN_MAX = 64
"""Records noted at most; servers take 4,096 bytes by default."""
TRUSTED_LIVES = 2
"""A process may be killed for many reasons. Twice at the same place is suspect."""


class Notes(NamedTuple):
    """Of one partition."""

    lives: int = 0
    """Owners in a row of whom none but the last may still be alive: the others did not give the
    partition back in order. 0 if the last one did."""
    since: int = 0
    """The committed offset when the first of them began."""
    begun: Mapping[int, int] = {}
    """Offsets, and how often their handling was begun alone and nothing came back."""

    @property
    def suspicious(self) -> bool:
        """Whether the records that come next should be handled one at a time."""
        return self.lives > TRUSTED_LIVES or bool(self.begun)

    def next_owner(self, offset: int, window: int) -> Notes:
        """Those of a new owner that begins at `offset`.

        Whoever came so far that nothing of what the first had in hand is left, `window` records at
        most, was not stopped by it.
        """
        begun = {at: count for at, count in self.begun.items() if at >= offset}
        if self.lives and self.since <= offset < self.since + window:
            return Notes(self.lives + 1, self.since, begun)
        return Notes(1, offset, begun)

    def text(self) -> str:
        """What stands beside the offset; nothing where there is nothing to tell."""
        if not self.lives and not self.begun:
            return ""
        counts = [f"{offset}:{count}" for offset, count in sorted(self.begun.items())[:BEGUN_MAX]]
        return " ".join([_WORD, f"lives={self.lives}", f"since={self.since}", *counts])


def parse(text: str | None) -> Notes:
    """What the last owner noted. Text that is not ours says nothing."""
    words = (text or "").split()
    if words[:1] != [_WORD]:
        return Notes()
    numbers = {"lives": 0, "since": 0}
    begun = {}
    for word in words[1:]:
        name, _, number = word.replace("=", ":").partition(":")
        if not number.isdecimal():
            continue
        if name in numbers:
            numbers[name] = int(number)
        elif name.isdecimal():
            begun[int(name)] = int(number)
    return Notes(numbers["lives"], numbers["since"], begun)

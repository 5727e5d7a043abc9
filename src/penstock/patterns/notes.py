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
_OPEN = "open"
BEGUN_MAX = 64
"""Records noted at most; servers take 4,096 bytes by default."""


class Notes(NamedTuple):
    """Of one partition."""

    open: bool = False
    """Somebody works on it. Read by the next one, it means that somebody did not end in order."""
    begun: Mapping[int, int] = {}
    """Offsets, and how often their handling was begun alone and nothing came back."""

    def text(self) -> str:
        """What stands beside the offset; nothing where there is nothing to tell."""
        if not self.open and not self.begun:
            return ""
        counts = [f"{offset}:{count}" for offset, count in sorted(self.begun.items())[:BEGUN_MAX]]
        return " ".join([_WORD, *([_OPEN] if self.open else []), *counts])


def parse(text: str | None) -> Notes:
    """What the last owner noted. Text that is not ours says nothing."""
    words = (text or "").split()
    if words[:1] != [_WORD]:
        return Notes()
    begun = {}
    for word in words[1:]:
        offset, _, count = word.partition(":")
        if offset.isdecimal() and count.isdecimal():
            begun[int(offset)] = int(count)
    return Notes(_OPEN in words, begun)

"""How far a redrive has come in one partition, when some letters were left out on the way.

Kept as a group's offset and the metadata beside it: the offset is the first letter that waits, the
metadata lists the letters behind it that were sent, as `start-end` in base 36, ends exclusive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

METADATA_MAX = 4096
"""What brokers keep beside an offset (offset.metadata.max.bytes)."""


class TooManyGaps(Exception):
    """What was sent and what was not cannot be written down any more."""


@dataclass(slots=True)
class Progress:
    """One partition: what was sent, what was seen and left, and what lies ahead."""

    start: int = 0
    """Everything below was sent."""
    sent: list[tuple[int, int]] = field(default_factory=list)
    """Ranges above `start` that were sent, in order."""
    left: list[int] = field(default_factory=list)
    """Letters that were seen this time and not sent."""

    @staticmethod
    def of(offset: int, metadata: str | None) -> Progress:
        """What a group has committed; the beginning, if it has nothing."""
        if offset < 0:
            return Progress()
        ranges = [each.split("-") for each in (metadata or "").split(",") if each]
        return Progress(offset, [(int(start, 36), int(end, 36)) for start, end in ranges])

    def was_sent(self, offset: int) -> bool:
        """Whether this letter went out before."""
        return any(start <= offset < end for start, end in self.sent)

    def leave(self, offset: int) -> None:
        """This letter is to wait."""
        self.left.append(offset)

    def after(self, offsets: list[int]) -> tuple[int, str]:
        """What to commit, once these letters were sent too: offset and metadata."""
        last = max(offsets) + 1
        # Letters are read in order: of what lies below the last one sent, all has been seen, and
        # what was not left there was sent, now or before.
        waiting = [each for each in self.left if each < last]
        start = waiting[0] if waiting else last
        gaps = [*waiting, last]
        made = [(gap + 1, following) for gap, following in pairwise(gaps) if following > gap + 1]
        sent = made + [each for each in self.sent if each[0] >= last]
        while sent and sent[0][0] == start:
            start = sent.pop(0)[1]
        self.start, self.sent = start, sent
        metadata = ",".join(f"{_base36(one)}-{_base36(end)}" for one, end in self.sent)
        if len(metadata) > METADATA_MAX:
            raise TooManyGaps
        return start, metadata


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    made = ""
    while number or not made:
        number, rest = divmod(number, 36)
        made = digits[rest] + made
    return made

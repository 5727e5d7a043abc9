"""How far a redrive has come in one partition, when some letters were left out on the way.

Kept as a group's offset and the metadata beside it: the offset is the first letter that waits, the
metadata lists the letters behind it that were sent, as `start-end` in base 36, ends exclusive.
Where that gets too long it is `~` and, in base64, a compressed row of bits, each for a letter from
the offset on: one reason of three, picked out of twenty thousand letters, still fits.
"""

from __future__ import annotations

import base64
import zlib
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise

METADATA_MAX = 4095
"""What brokers keep beside an offset (offset.metadata.max.bytes), less the zero that librdkafka
sends along at the end."""

PACKED = "~"
LETTERS_SPAN_MAX = 8 * 1024 * 1024
"""How many letters a row of bits may span: a compressed row could claim any length."""


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
        """What a group has committed; the beginning, if it has nothing. ValueError if the metadata
        is not ours."""
        if offset < 0:
            return Progress()
        text = (metadata or "").rstrip("\0")
        if text.startswith(PACKED):
            return Progress(offset, _unpacked(offset, text[len(PACKED) :]))
        ranges = [each.split("-") for each in text.split(",") if each]
        return Progress(offset, [(int(start, 36), int(end, 36)) for start, end in ranges])

    def was_sent(self, offset: int) -> bool:
        """Whether this letter went out before."""
        at = bisect_right(self.sent, offset, key=lambda one: one[0])
        return at > 0 and offset < self.sent[at - 1][1]

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
            metadata = _packed(start, sent)
        if len(metadata) > METADATA_MAX:
            raise TooManyGaps
        return start, metadata


def _packed(start: int, sent: list[tuple[int, int]]) -> str:
    if sent[-1][1] - start > LETTERS_SPAN_MAX:
        raise TooManyGaps
    row = bytearray(sent[-1][1] - start)
    for one, end in sent:
        row[one - start : end - start] = b"\1" * (end - one)
    # As digits of a number, eight letters make a byte.
    number = int(row.translate(_AS_DIGITS)[::-1], 2)
    bits = number.to_bytes((len(row) + 7) // 8, "little")
    return PACKED + base64.b64encode(zlib.compress(bits, 9)).decode()


def _unpacked(start: int, text: str) -> list[tuple[int, int]]:
    try:
        unpacker = zlib.decompressobj()
        bits = unpacker.decompress(base64.b64decode(text, validate=True), LETTERS_SPAN_MAX // 8)
    except zlib.error as wrong:
        raise ValueError(f"metadata that is not a row of bits: {wrong}") from None
    sent: list[tuple[int, int]] = []
    for at, digit in enumerate(f"{int.from_bytes(bits, 'little'):b}"[::-1], start):
        if digit == "1" and sent and sent[-1][1] == at:
            sent[-1] = sent[-1][0], at + 1
        elif digit == "1":
            sent.append((at, at + 1))
    return sent


_AS_DIGITS = bytes.maketrans(b"\0\1", b"01")


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    made = ""
    while number or not made:
        number, rest = divmod(number, 36)
        made = digits[rest] + made
    return made

"""Which offsets somebody looked at: ranges, joined as they come."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class Ranges:
    """A set of offsets, kept as ranges. `end` is exclusive."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(ranges):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def __bool__(self) -> bool:
        return bool(self._starts)

    def reaches(self, end: int) -> bool:
        """Whether everything below `end` is in it."""
        return end <= 0 or (bool(self._starts) and self._starts[0] <= 0 and end <= self._ends[0])

    @property
    def end(self) -> int:
        """The end of the last range; 0 if there is none."""
        return self._ends[-1] if self._ends else 0

"""Visits, one at a time for each user, in state that survives restarts.

Times are milliseconds here: they mean the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SILENCE_MS = 30 * 60_000
PATH_MAX = 20
"""How many pages of a visit are remembered."""


class Visits(StatefulProcessor):
    """Gives a row when a visit has ended."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._visit = handle.getValueState(
            "visit", "begun long, ended long, clicks long, path array<string>"
        )

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002
    ) -> Iterator[Row]:
        visit = self._visit.get() if self._visit.exists() else None
        # Rows of one batch come in any order.
        for row in sorted(rows, key=lambda each: each["millis"]):
            if visit is not None and row["millis"] - visit[1] >= SILENCE_MS:
                yield self._row(key, visit)
                visit = None
            begun, ended, clicks, path = visit or (row["millis"], row["millis"], 0, [])
            path = [*path, row["page"]][:PATH_MAX]
            visit = (begun, max(ended, row["millis"]), clicks + 1, path)
        if visit is not None:
            self._visit.update(visit)
            self._wake_at(visit[1] + SILENCE_MS)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: Any,  # noqa: ARG002
        expiredTimerInfo: Any,  # noqa: ARG002
    ) -> Iterator[Row]:
        """The watermark has passed the visit's end: nothing can still belong to it."""
        yield self._row(key, self._visit.get())
        self._visit.clear()

    def close(self) -> None:
        """Nothing is open."""

    def _wake_at(self, millis: int) -> None:
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(millis)

    @staticmethod
    def _row(key: Any, visit: Any) -> Row:
        begun, ended, clicks, path = visit
        return Row(user=key[0], begun=begun, ended=ended, clicks=clicks, path=" > ".join(path))

"""Visits, one at a time for each user, in state that survives restarts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SILENCE = timedelta(minutes=30)
PATH_MAX = 20
"""How many pages of a visit are remembered."""


class Visits(StatefulProcessor):
    """Gives a row when a visit has ended."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._visit = handle.getValueState(
            "visit", "begun timestamp, ended timestamp, clicks long, path array<string>"
        )

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        visit = self._visit.get() if self._visit.exists() else None
        # Rows of one batch come in any order.
        for row in sorted(rows, key=lambda each: each["at"]):
            if visit is not None and row["at"] - visit[1] >= SILENCE:
                yield self._row(key, visit)
                visit = None
            if visit is None:
                visit = (row["at"], row["at"], 0, [])
            begun, ended, clicks, path = visit
            path = [*path, row["page"]][:PATH_MAX]
            visit = (begun, max(ended, row["at"]), clicks + 1, path)
        if visit is not None:
            self._visit.update(visit)
            self._wake_at(visit[1] + SILENCE)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """The watermark has passed the visit's end: nobody can still belong to it."""
        yield self._row(key, self._visit.get())
        self._visit.clear()

    def close(self) -> None:
        """Nothing is open."""

    def _wake_at(self, time: Any) -> None:
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(int(time.timestamp() * 1000))

    @staticmethod
    def _row(key: Any, visit: Any) -> Row:
        begun, ended, clicks, path = visit
        return Row(user=key[0], begun=begun, ended=ended, clicks=clicks, path=" > ".join(path))

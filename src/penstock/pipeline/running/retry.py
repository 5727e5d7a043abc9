"""Trying again, less and less often, and not for ever."""

from __future__ import annotations

FIRST_SECONDS = 1.0
LAST_SECONDS = 60.0


class Retries:
    """Decides when a query that failed is started again. Time comes in as an argument."""

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._used = 0
        self._batch: int | None = None
        self._due: float | None = None

    @property
    def waiting(self) -> bool:
        """Whether a start is due, now or later."""
        return self._due is not None

    def may_go_on(self, batch: int, now: float) -> bool:
        """Whether there is another attempt after `batch` was the last that went well."""
        if batch != self._batch:
            self._used = 0  # it got further than the time before
        self._batch = batch
        if self._used >= self._attempts:
            return False
        self._due = now + min(LAST_SECONDS, FIRST_SECONDS * 2**self._used)
        self._used += 1
        return True

    def due(self, now: float) -> bool:
        """Whether it is time; True once for each attempt."""
        if self._due is None or now < self._due:
            return False
        self._due = None
        return True

    def __str__(self) -> str:
        return f"attempt {self._used} of {self._attempts}"

"""A bar on stderr for work that takes longer than a moment, where somebody is looking."""

from __future__ import annotations

import sys
import time
from typing import Any

QUIET_SECONDS = 1.0
"""Work that ends sooner shows no bar: most commands end at once, and Rich is slow to import."""


class Progress:
    """Counts work, and shows it once it has lasted `QUIET_SECONDS` on a terminal."""

    def __init__(self, what: str, total: int | None, *, size: bool, shown: bool = True) -> None:
        """`total` is None where the end is not known; `size` says that bytes are counted."""
        self._what = what
        self._total = total
        self._size = size
        self._shown = shown and sys.stderr.isatty()
        self._due = time.monotonic() + QUIET_SECONDS
        self._bar: Any = None
        self._task: Any = None
        self.done = 0

    def advance(self, amount: int) -> None:
        """So much more is done. Cheap enough for every batch, not meant for every record."""
        self.done += amount
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done)
        elif self._shown and time.monotonic() >= self._due:
            self._show()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn() if self._size else MofNCompleteColumn(),
            TimeElapsedColumn() if self._total is None else TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(self._what, total=self._total, completed=self.done)
        self._bar.start()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

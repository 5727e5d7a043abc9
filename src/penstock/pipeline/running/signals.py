"""Being asked to stop: by Ctrl-C, by SIGTERM, or by whoever started the run."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)

ECHO_SECONDS = 1.0
"""A signal that follows so closely is the same wish: some send it to a process and to its group."""


class Stop:
    """The wish to stop. The first one lets the batch in hand finish; a second one does not."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def ask(self) -> None:
        """Stop after the batch in hand."""
        self.asked.set()


class SignalledStop(Stop):
    """A wish to stop that signals make."""

    def __init__(self) -> None:
        super().__init__()
        self._since = 0.0

    def listen(self) -> None:
        """Take over the signals; again if somebody else did meanwhile, as PySpark does."""
        for each in SIGNALS:
            signal.signal(each, self._take)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        # Nothing is raised here: an exception in the middle of a call to the JVM would break the
        # connection that the call is on, and with it the orderly end.
        now = time.monotonic()
        if self.asked.is_set() and now > self._since + ECHO_SECONDS:
            # Java ends when our end of its pipe is closed; nothing that counts is only in memory.
            os._exit(128 + number)
        if not self.asked.is_set():
            self._since = now
        self.asked.set()

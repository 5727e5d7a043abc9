"""Java programs of this folder, run on Apache's own client libraries."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.oracle import apache

Event = dict[str, Any]
"""One JSON line of a program's output."""

_HERE = Path(__file__).parent
END_SECONDS_MAX = 60


class Program:
    """A running program that tells what it does in JSON lines, and may be told what to do."""

    def __init__(self, source: str, *arguments: str, output: Path) -> None:
        self._errors = output
        with open(output, "ab") as errors:
            self._process = subprocess.Popen(
                [*apache.java(options=apache.JVM_SHORT), str(_HERE / source), *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1,
            )  # fmt: skip
        self.events: list[Event] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def tell(self, *words: str) -> None:
        """A line for the program's stdin."""
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)

    def wait_for(self, holds: Callable[[list[Event]], bool], what: str, seconds_max: float) -> None:
        """Wait until something can be said of the events so far."""
        wait_until(lambda: holds(list(self.events)), what, seconds_max, self.complaints)

    def kill(self) -> float:
        """SIGKILL, and the moment at which the program was certainly gone."""
        self._process.kill()
        self._process.wait(END_SECONDS_MAX)
        moment = time.monotonic()
        self._reader.join(END_SECONDS_MAX)
        self._let_go()
        return moment

    def end(self) -> None:
        """Close its stdin, which asks it to end, and wait until it has."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        status = self._process.wait(END_SECONDS_MAX)
        self._reader.join(END_SECONDS_MAX)
        self._let_go()
        assert status == 0, f"the program ended with {status}:\n{self.complaints()}"

    def complaints(self) -> str:
        """The end of what it wrote to stderr."""
        return self._errors.read_text(errors="replace")[-4000:]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # A line that SIGKILL cut short never happened.
            with contextlib.suppress(json.JSONDecodeError):
                self.events.append(json.loads(line))

    def _let_go(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def wait_until(
    holds: Callable[[], bool],
    what: str,
    seconds_max: float,
    complaints: Callable[[], str] = lambda: "",
) -> None:
    """Wait until something is true, or fail and say what was not."""
    deadline = time.monotonic() + seconds_max
    while not holds():
        assert time.monotonic() < deadline, f"not in {seconds_max} s: {what}\n{complaints()}"
        time.sleep(0.05)

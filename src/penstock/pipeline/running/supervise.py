"""Many pipelines under one roof: each a process of its own, started again when it fails.

A process of its own, because Spark has one session per Java process, and because a pipeline that
runs out of memory takes nobody with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import IO

from penstock.pipeline.running.registry import Entry
from penstock.pipeline.running.retry import Retries
from penstock.pipeline.running.signals import Stop
from penstock.pipeline.running.status import (
    DONE,
    ENDED,
    FAILED,
    RETRYING,
    RUNNING,
    STARTING,
    STOPPED,
    PipelineStatus,
)

LOOK_SECONDS = 0.5
STARTS_MAX = 8
"""How often a pipeline that gets nowhere is started again: over some four minutes."""
STOP_SECONDS_MAX = 90.0
"""Longer than a pipeline waits for its batch in hand."""
STATUS_USAGE = 2
"""How a command ends that would end the same way next time."""
PARENT = "PENSTOCK_SUPERVISOR"
"""Tells a pipeline's process who started it: it ends when that one does."""


class Child:
    """One pipeline, and the process that runs it, if one does."""

    def __init__(self, name: str, file: str, command: Sequence[str]) -> None:
        self.name = name
        self.entry = Entry(name)
        self._command = command
        self._retries = Retries(STARTS_MAX)
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._started = 0.0
        self._own = PipelineStatus(name, os.path.abspath(file), 0, time.time())
        self.restarts = 0

    @property
    def over(self) -> bool:
        """Whether it has ended for good."""
        return self._process is None and not self._retries.waiting

    def start(self) -> None:
        """Run it."""
        self.entry.folder.mkdir(parents=True, exist_ok=True)
        self._output = open(self.entry.folder / "output.log", "w+b")  # noqa: SIM115 - the process's
        self._started = time.time()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._output,
            env={**os.environ, PARENT: str(os.getpid())},
            # Ctrl-C reaches a whole group: the supervisor alone is to hear it, and to pass it on.
            start_new_session=True,
        )
        self._own.pid = self._process.pid
        self._own.state, self._own.message = STARTING, ""

    def look(self, now: float) -> None:
        """See whether it still runs, and start it again if that is due."""
        if self._process is None:
            if self._retries.due(now):
                self.restarts += 1
                self.start()
            return
        status = self._process.poll()
        if status is not None:
            self._ended(status, now)

    def _ended(self, status: int, now: float) -> None:
        told = self._told()
        message = (told and told.message) or self._last_words() or f"it ended with status {status}"
        self._process = None
        if status == 0:
            self._own.state, self._own.message = (told.state if told else DONE), ""
            return
        batch = max((each.batch for each in told.queries.values()), default=-1) if told else -1
        if status != STATUS_USAGE and self._retries.may_go_on(batch, now):
            self._own.state, self._own.message = RETRYING, f"{message}; {self._retries}"
        else:
            self._own.state, self._own.message = FAILED, message

    def stop(self) -> None:
        """Ask it to stop after the batch in hand, and do not start it again."""
        self._retries = Retries(0)
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
        elif self._own.state == RETRYING:
            self._own.state = STOPPED

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def status(self) -> PipelineStatus:
        """How it is: what it says itself while it runs, else what became of it."""
        told = self._told()
        if told is None:
            status = self._own
        elif self._process is None:
            status = told
            status.state, status.message = self._own.state, self._own.message
        else:
            status = told
            if status.state in ENDED:
                status.state, status.message = RUNNING, "about to end"
        return replace(status, restarts=status.restarts + self.restarts)

    def _told(self) -> PipelineStatus | None:
        """What the process of this start has written down, if it did already."""
        told = self.entry.read()
        return told if told is not None and told.started >= self._started else None

    def _last_words(self) -> str:
        if self._output is None:
            return ""
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").splitlines()
        told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        return (told or lines or [""])[-1]


class Supervisor:
    """Starts pipelines, keeps them running, and stops them all."""

    def __init__(self, children: Iterable[Child], stop: Stop) -> None:
        self._children = list(children)
        self._stop = stop

    def run(self, listener: Callable[[Sequence[PipelineStatus]], None]) -> list[PipelineStatus]:
        """Run until all have ended, or until it is asked to stop; how they ended."""
        for child in self._children:
            child.start()
        try:
            while not self._stop.asked.is_set() and not all(each.over for each in self._children):
                for child in self._children:
                    child.look(time.monotonic())
                listener(self.statuses())
                self._stop.asked.wait(LOOK_SECONDS)
        finally:
            self._end(listener)
        return self.statuses()

    def statuses(self) -> list[PipelineStatus]:
        """How each of them is."""
        return [child.status() for child in self._children]

    def _end(self, listener: Callable[[Sequence[PipelineStatus]], None]) -> None:
        for child in self._children:
            child.stop()
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while not all(each.over for each in self._children) and time.monotonic() < deadline:
            for child in self._children:
                child.look(time.monotonic())
            listener(self.statuses())
            time.sleep(LOOK_SECONDS)
        for child in self._children:
            child.kill()
        listener(self.statuses())

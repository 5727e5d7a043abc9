"""A pipeline that is killed and started again, and who else is killed under it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.testing import Broker
from tests.pipeline.spark.cluster import Cluster

PROGRESS_SECONDS_MAX = 600.0
"""How long a pipeline may take to write again, a start of Spark on a busy machine included."""

EXECUTOR = "CoarseGrainedExecutorBackend"


class Life:
    """`penstock pipeline run` in a session of its own, started again whenever it has ended."""

    def __init__(self, folder: Path, file: Path, cluster: Cluster | None) -> None:
        self._folder = folder
        self._command = [sys.executable, "-m", "penstock", "pipeline", "run", str(file)]
        settings = {"spark.sql.shuffle.partitions": "2"}
        if cluster is not None:
            settings = cluster.settings
        self._command += ["--master", "local[2]" if cluster is None else cluster.url]
        for key, value in settings.items():
            self._command += ["--conf", f"{key}={value}"]
        self.count = 0
        self._start()

    def wait_for(self, look: Callable[[], int], rows: int) -> None:
        """Until the slowest sink has at least so many rows."""
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        best = -1
        while (found := look()) < rows:
            self.keep_alive()
            if found > best:
                best, deadline = found, time.monotonic() + PROGRESS_SECONDS_MAX
            assert time.monotonic() < deadline, f"only {found} of {rows} rows:\n{self._log()}"
            time.sleep(0.2)

    def kill(self, *, java: bool = True, python: bool = True) -> None:
        """The driver, or one half of it: the other has to notice, and must do no harm meanwhile."""
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        # It may have ended by itself a moment ago, or have no Java yet: that would be no kill.
        self.keep_alive()
        while not (victims := self._processes(java=java, python=python)):
            self.keep_alive()
            assert time.monotonic() < deadline, f"there is no driver to kill:\n{self._log()}"
            time.sleep(0.2)
        for pid in victims:
            _kill(pid)
        if python:
            self._process.wait()

    def end(self) -> None:
        """With whatever of it still runs."""
        for pid in self._processes(java=True, python=True):
            _kill(pid)
        self._process.wait()

    def _processes(self, *, java: bool, python: bool) -> list[int]:
        own = [pid for pid in _pids() if _session(pid) == self._process.pid]
        return [pid for pid in own if (java if _is_java(pid) else python)]

    def keep_alive(self) -> None:
        """Start it again if it has ended."""
        if self._process.poll() is not None:
            self._start()

    def _start(self) -> None:
        self.count += 1
        state = {**os.environ, "PENSTOCK_STATE": str(self._folder / "state")}
        with open(self._folder / f"run-{self.count}.log", "wb") as log:
            self._process = subprocess.Popen(
                self._command, start_new_session=True, stdout=log, stderr=log, env=state
            )

    def _log(self) -> str:
        return (self._folder / f"run-{self.count}.log").read_text(errors="replace")[-4000:]


class Victims:
    """Who is killed: by chance, but nobody a second time before each was killed once."""

    def __init__(
        self, chance: random.Random, life: Life, broker: Broker, cluster: Cluster | None
    ) -> None:
        self._chance = chance
        self._life = life
        self._broker = broker
        self._workers = cluster.pids[1:] if cluster is not None else []
        self._round = 0
        self._next: list[Callable[[], None]] = []
        self.killed: Counter[str] = Counter()

    def kill_one(self) -> None:
        if not self._next:
            self._next = self._another_round()
        way = self._next.pop(0)
        way()
        self.killed[way.__name__] += 1
        print(f"{time.strftime('%H:%M:%S')} killed: {way.__name__}", flush=True)

    def _another_round(self) -> list[Callable[[], None]]:
        """The driver comes first in the first round: a short run has no other kill."""
        drivers = [self.driver, self.python, self.java]
        ways = [drivers[self._round % len(drivers)], self.broker]
        if self._workers:
            ways.append(self.executor)
        if self._round:
            self._chance.shuffle(ways)
        self._round += 1
        return ways

    def driver(self) -> None:
        self._life.kill()

    def python(self) -> None:
        self._life.kill(java=False)

    def java(self) -> None:
        self._life.kill(python=False)

    def broker(self) -> None:
        self._broker.kill()
        time.sleep(self._chance.uniform(0, 2))
        self._broker.start()

    def executor(self) -> None:
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        while not (running := [pid for pid in _pids() if self._is_executor(pid)]):
            self._life.keep_alive()
            assert time.monotonic() < deadline, "there is no executor to kill"
            time.sleep(0.2)
        _kill(self._chance.choice(running))

    def _is_executor(self, pid: int) -> bool:
        return _parent(pid) in self._workers and EXECUTOR in _command(pid)


def _pids() -> Iterator[int]:
    yield from (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _is_java(pid: int) -> bool:
    return "java" in os.path.basename(_command(pid).partition(" ")[0])


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it was faster

"""A pipeline that is killed and started again, and what readers of its sinks find meanwhile."""

from __future__ import annotations

import json
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
from tests.pipeline.postgres import Postgres
from tests.pipeline.spark.cluster import Cluster

PROGRESS_SECONDS_MAX = 300.0
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
            if self._process.poll() is not None:
                self._start()
            if found > best:
                best, deadline = found, time.monotonic() + PROGRESS_SECONDS_MAX
            assert time.monotonic() < deadline, f"only {found} of {rows} rows:\n{self._log()}"
            time.sleep(0.2)

    def kill(self, *, java: bool = True, python: bool = True) -> None:
        """The driver, or one half of it: the other has to notice, and must do no harm meanwhile."""
        own = [pid for pid in _pids() if _session(pid) == self._process.pid]
        for pid in own:
            is_java = "java" in os.path.basename(_command(pid).partition(" ")[0])
            if (java and is_java) or (python and not is_java):
                _kill(pid)
        if python:
            self._process.wait()

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
    """Who is killed: each kind in turn at first, then any."""

    def __init__(
        self, chance: random.Random, life: Life, broker: Broker, cluster: Cluster | None
    ) -> None:
        self._chance = chance
        self._life = life
        self._broker = broker
        self._workers = cluster.pids[1:] if cluster is not None else []
        self.killed: Counter[str] = Counter()
        self._ways = [self.driver, self.broker, self.python, self.java]
        if cluster is not None:
            self._ways.insert(0, self.executor)

    def kill_one(self, number: int) -> None:
        way = self._ways[number] if number < len(self._ways) else self._chance.choice(self._ways)
        way()
        self.killed[way.__name__] += 1

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
            assert time.monotonic() < deadline, "there is no executor to kill"
            time.sleep(0.2)
        _kill(self._chance.choice(running))

    def _is_executor(self, pid: int) -> bool:
        return _parent(pid) in self._workers and EXECUTOR in _command(pid)


def parquet_count(lake: Path) -> int:
    """The rows of all files that a listing finds now."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    rows = 0
    for folder, inner, names in os.walk(lake):
        inner[:] = [name for name in inner if not name.startswith("_")]
        found = [pq.read_metadata(Path(folder, name)) for name in names if name[0] not in "._"]
        rows += sum(int(each.num_rows) for each in found)
    return rows


def iceberg_count(table: Path) -> int:
    """The rows of the newest snapshot, by the table's own files."""
    try:
        version = (table / "metadata" / "version-hint.text").read_text().strip()
        found = json.loads((table / "metadata" / f"v{version}.metadata.json").read_text())
    except FileNotFoundError:
        return 0
    current = found.get("current-snapshot-id")
    for snapshot in found.get("snapshots", []):
        if snapshot["snapshot-id"] == current:
            return int(snapshot["summary"]["total-records"])
    return 0


def table_count(postgres: Postgres, table: str) -> int:
    """The rows of a table of the database; none if it is not there yet."""
    found = postgres.query(
        f"SELECT (xpath('/row/c/text()', query_to_xml('SELECT count(*) AS c FROM {table}', "
        f"false, true, '')))[1] FROM pg_tables WHERE tablename = '{table}'"
    )
    return int(found[0][0]) if found else 0


def _pids() -> Iterator[int]:
    yield from (int(name) for name in os.listdir("/proc") if name.isdecimal())


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

"""The benchmark is a good guest: whoever ends it ends its brokers. And it loses no number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench import chart, report
from bench.model import QUICK, Case, Measures, Scale, throughput
from bench.rdkafka import ClientFailed
from bench.runner import Runner
from tests.oracle.nodes import REPOSITORY, Node

SECONDS_MAX = 60


def test_a_benchmark_that_is_asked_to_end_leaves_no_broker_behind(tmp_path: Path) -> None:
    bench = subprocess.Popen(
        [sys.executable, "-m", "bench", "--targets", "penstock", "--only", "produce-large"],
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + SECONDS_MAX
        while not (brokers := _children(bench.pid)):
            assert bench.poll() is None and time.monotonic() < deadline, "no broker was started"
            time.sleep(0.05)
        bench.terminate()
        assert bench.wait(SECONDS_MAX) == 128 + signal.SIGTERM
    finally:
        bench.kill()
        bench.wait()
    assert [pid for pid in brokers if Path(f"/proc/{pid}").exists()] == []
    assert list(tmp_path.iterdir()) == []


def test_a_case_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    def good(_: Node, __: Scale) -> Measures:
        return {"rate": 2.0}

    rounds = iter((1.0, 3.0))

    def failing(_: Node, __: Scale) -> Measures:
        found = next(rounds, None)
        if found is None:
            raise ClientFailed("refused")
        return {"rate": found}

    def hopeless(_: Node, __: Scale) -> Measures:
        raise ClientFailed("gone")

    cases = [
        Case(run.__name__, run.__name__, run, (throughput(),), own_node=True, warm_ups=0)
        for run in (failing, hopeless, good)
    ]
    runner = Runner(QUICK._replace(own_node_rounds=2))
    rows = runner.run(cases)
    assert {name: str(why) for name, why in runner.failures.items()} == {
        "failing": "refused",
        "hopeless": "gone",
    }
    assert [(row.apache, row.penstock) for row in rows] == [
        ([1.0], [3.0]),
        ([], []),
        ([2.0, 2.0], [2.0, 2.0]),
    ]
    report.write(tmp_path, "partial", rows, {}, QUICK, {})
    chart.draw(tmp_path / "partial.png", rows)
    page = (tmp_path / "partial.md").read_text()
    assert "failing" in page and "not compared" in page


def _children(pid: int) -> list[int]:
    """The brokers among a process' children."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        command = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"server.properties" in command:
            found.append(int(child))
    return found

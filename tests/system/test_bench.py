"""The benchmark is a good guest: whoever ends it ends its brokers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.oracle.nodes import REPOSITORY

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


def _children(pid: int) -> list[int]:
    """The brokers among a process' children."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        command = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"server.properties" in command:
            found.append(int(child))
    return found

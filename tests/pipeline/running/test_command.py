"""`penstock pipeline run` as a user's shell runs it: one life from start to stop."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.spark.missing import skipped_without_spark
from tests.unit.cli.runner import Penstock

GENERATED = """\
name: made
sources:
  made: {generate: 20}
sinks:
  lake: {parquet: lake}
trigger: 500 milliseconds
spark: {spark.driver.memory: 512m, spark.sql.shuffle.partitions: 2}
"""


@pytest.fixture
def penstock(tmp_path: Path, state: Path) -> Penstock:
    with skipped_without_spark():
        from penstock.pipeline.spark.java import find_java

        find_java()
    (tmp_path / "made.yml").write_text(GENERATED)
    made = Penstock(tmp_path)
    made.environment["PENSTOCK_STATE"] = str(state)
    return made


def told(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read().decode() if process.stderr else ""
    document: dict[str, Any] = json.loads(line)
    return document


def test_a_pipeline_is_run_seen_measured_and_stopped(penstock: Penstock) -> None:
    process = penstock.start(
        "pipeline", "run", "made.yml", "-m", "local[2]", "-o", "json", "--metrics-port", "0"
    )
    try:
        assert process.stderr is not None
        port = re.search(rb":(\d+)/metrics", process.stderr.readline())
        assert port is not None
        status = told(process)
        assert (status["state"], status["rows"]) == ("starting", 0)
        while status["rows"] == 0:
            status = told(process)
        (listed,) = json.loads(penstock.out("pipeline", "list", "-o", "json"))
        assert (listed["pipeline"], listed["state"]) == ("made", "running")
        with urllib.request.urlopen(f"http://127.0.0.1:{int(port[1])}/metrics") as answer:
            assert b'penstock_pipeline_rows_total{pipeline="made",query="made"}' in answer.read()
        assert penstock("pipeline", "stop", "made").stderr == "made has ended\n"
        rest, complaints = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert complaints == b""
    assert json.loads(rest.splitlines()[-1])["state"] == "stopped"
    assert list((penstock.directory / "lake").glob("*.parquet"))

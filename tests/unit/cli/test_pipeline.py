"""`penstock pipeline`, as far as it goes without Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.runner import Penstock

ORDERS = """\
name: orders
bootstrap: 127.0.0.1:1
sources:
  orders: {topic: orders}
steps:
  - {filter: length(value) > 3, as: long}
sinks:
  out: {topic: orders.long}
  lake: {parquet: lake}
"""

HOLDER = """\
import json, os, signal, sys, time
from penstock.pipeline.running.registry import Claim
from penstock.pipeline.running.status import PipelineStatus, QueryStatus
from penstock.pipeline.spec.read import read_pipeline
claim = Claim(read_pipeline(sys.argv[1], {}))
status = PipelineStatus("orders", sys.argv[1], os.getpid(), time.time(), state="running")
status.queries["long"] = QueryStatus("long", batch=4, rows=1234, lag=56, bad=2)
claim.entry.write(status)
def end(*_):
    status.state = "stopped"
    claim.entry.write(status)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def penstock(tmp_path: Path) -> Penstock:
    """The command, in a folder with a pipeline, with a state folder of its own."""
    made = Penstock(tmp_path)
    made.environment["PENSTOCK_STATE"] = str(tmp_path / "state")
    (tmp_path / "orders.yml").write_text(ORDERS)
    return made


@pytest.fixture
def running(penstock: Penstock) -> subprocess.Popen[str]:
    """A process that says of itself that it runs the pipeline."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, "orders.yml"],
        cwd=penstock.directory,
        env=penstock.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_help_of_every_command_imports_no_spark(penstock: Penstock) -> None:
    code = (
        "import sys; from penstock.cli.root import run_command\n"
        "run_command(['pipeline', 'run', '--help'])\n"
        "sys.exit(bool({'pyspark', 'pandas', 'confluent_kafka'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=penstock.environment
    )
    assert ran.returncode == 0, ran.stderr


def test_a_mistake_in_the_file_is_told_with_its_line(penstock: Penstock) -> None:
    (penstock.directory / "orders.yml").write_text(ORDERS.replace("filter", "flter"))
    ran = penstock("pipeline", "run", "orders.yml")
    assert ran.returncode == 1
    assert "orders.yml:6" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_broker_that_is_not_there_is_told_at_once(penstock: Penstock) -> None:
    ran = penstock("pipeline", "run", "orders.yml")
    assert ran.returncode == 1
    assert "no broker answers (127.0.0.1:1: Connection refused)" in ran.stderr
    assert "hint: `penstock up` starts one" in ran.stderr


def test_a_folder_with_a_mistake_in_it_is_not_run_at_all(penstock: Penstock) -> None:
    (penstock.directory / "broken.yml").write_text("name: broken\n")
    ran = penstock("pipeline", "run", ".")
    assert ran.returncode == 1
    assert "broken.yml" in ran.stderr
    assert not (penstock.directory / "state").exists()


def test_the_pipelines_of_a_folder_are_started_again_until_the_supervisor_is_stopped(
    penstock: Penstock,
) -> None:
    (penstock.directory / "orders.yml").unlink()
    text = ORDERS.replace("127.0.0.1:1", "${NOWHERE}")
    (penstock.directory / "pipelines").mkdir()
    for name in ("one", "two"):
        file = penstock.directory / "pipelines" / f"{name}.yml"
        file.write_text(text.replace("name: orders", f"name: {name}"))
    penstock.environment["NOWHERE"] = "127.0.0.1:1"
    process = subprocess.Popen(
        penstock.command("pipeline", "run", "pipelines", "-o", "json"),
        cwd=penstock.directory,
        env=penstock.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    waiting: set[str] = set()
    for line in process.stdout:
        told = json.loads(line)
        if told["state"] == "retrying" and "no broker answers" in told["message"]:
            waiting.add(told["pipeline"])
        if waiting == {"one", "two"}:
            break
    process.send_signal(signal.SIGTERM)
    _, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (0, "")


def test_what_runs_is_listed_and_shown(penstock: Penstock, running: subprocess.Popen[str]) -> None:
    try:
        listed = penstock.out("pipeline", "list")
        assert [line.split()[:3] for line in listed.splitlines()[1:]] == [
            ["orders", "running", "1234"]
        ]
        shown = json.loads(penstock.out("pipeline", "status", "orders", "-o", "json"))
        assert (shown["lag"], shown["bad"], shown["pid"]) == (56, 2, running.pid)
        assert "1234" in penstock.out("pipeline", "status", "orders")
    finally:
        running.kill()
        running.wait()


def test_a_process_that_was_killed_is_listed_as_failed(
    penstock: Penstock, running: subprocess.Popen[str]
) -> None:
    running.kill()
    running.wait()
    (listed,) = json.loads(penstock.out("pipeline", "list", "-o", "json"))
    assert listed["state"] == "failed"
    assert f"the process {running.pid} ended without a word" == listed["message"]


def test_stopping_waits_for_the_end(penstock: Penstock, running: subprocess.Popen[str]) -> None:
    ran = penstock("pipeline", "stop", "orders")
    assert (ran.returncode, ran.stderr) == (0, "orders has ended\n")
    assert running.wait(20) == 0
    assert penstock.out("pipeline", "list").count("\n") == 1
    again = penstock("pipeline", "stop", "orders")
    assert again.returncode == 1
    assert "does not run" in again.stderr


def test_a_pipeline_is_not_run_twice_at_once(
    penstock: Penstock, running: subprocess.Popen[str]
) -> None:
    try:
        ran = penstock("pipeline", "run", "orders.yml")
        assert ran.returncode == 1
        assert f"runs already (process {running.pid})" in ran.stderr
        assert "penstock pipeline stop orders" in ran.stderr
        refused = penstock("pipeline", "reset", "orders.yml", "--yes", "--keep-group")
        assert refused.returncode == 0  # it has no checkpoint yet
    finally:
        running.kill()
        running.wait()


def test_a_name_that_nobody_knows_gets_the_nearest(
    penstock: Penstock, running: subprocess.Popen[str]
) -> None:
    running.kill()
    running.wait()
    ran = penstock("pipeline", "status", "order")
    assert ran.returncode == 1
    assert "did you mean orders?" in ran.stderr


def test_a_plan_needs_neither_broker_nor_spark(penstock: Penstock) -> None:
    lines = penstock.out("pipeline", "plan", "orders.yml").splitlines()
    assert lines[1].split() == ["step", "long", "filter", "length(value)", ">", "3", "<-", "orders"]
    assert penstock.out("pipeline", "plan", "orders.yml", "--mermaid").startswith("flowchart LR")
    ran = penstock("pipeline", "plan", "orders.yml", "--svg", "orders.svg")
    assert ran.stderr == "orders.svg is drawn\n"
    assert (penstock.directory / "orders.svg").read_text().startswith("<svg ")
    told = json.loads(penstock.out("pipeline", "plan", "orders.yml", "-o", "json"))
    assert {"from": "long", "to": "lake", "view": "long"} in told["edges"]


def test_a_reset_says_what_it_means_and_forgets(penstock: Penstock) -> None:
    checkpoint = penstock.directory / ".penstock" / "orders"
    (checkpoint / "queries" / "long").mkdir(parents=True)
    (checkpoint / "penstock.json").write_text('{"pipeline": "orders", "id": "abc"}')
    (checkpoint / "mine.txt").write_text("not ours")
    unasked = penstock("pipeline", "reset", "orders.yml", "--keep-group")
    assert unasked.returncode == 2
    assert "pass --yes" in unasked.stderr
    ran = penstock("pipeline", "reset", "orders.yml", "--yes", "--keep-group")
    assert ran.returncode == 0, ran.stderr
    assert "out: the topic orders.long gets all records again" in ran.stderr
    assert "lake: lake gets all rows again" in ran.stderr
    assert os.listdir(checkpoint) == ["mine.txt"]


def test_a_reset_without_a_broker_does_nothing_by_halves(penstock: Penstock) -> None:
    checkpoint = penstock.directory / ".penstock" / "orders"
    checkpoint.mkdir(parents=True)
    (checkpoint / "penstock.json").write_text('{"pipeline": "orders", "id": "abc"}')
    ran = penstock("pipeline", "reset", "orders.yml", "--yes")
    assert ran.returncode == 1
    assert "no broker answers" in ran.stderr
    assert (checkpoint / "penstock.json").exists()


def test_an_export_compiles_and_says_what_it_cannot_do(penstock: Penstock) -> None:
    secret = ORDERS + "kafka: {sasl.jaas.config: hunter2}\n"
    (penstock.directory / "orders.yml").write_text(secret)
    ran = penstock("pipeline", "export", "orders.yml", "--sdp", "project")
    assert ran.returncode == 0, ran.stderr
    assert "not carried over: out: exactly-once" in ran.stderr
    code = (penstock.directory / "project" / "transformations" / "pipeline.py").read_text()
    compile(code, "pipeline.py", "exec")
    assert "hunter2" not in code
    assert "os.environ['KAFKA_SASL_JAAS_CONFIG']" in code
    again = penstock("pipeline", "export", "orders.yml", "--sdp", "project")
    assert again.returncode == 2
    assert "is not empty" in again.stderr

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.running import retry
from penstock.pipeline.running.reach import address_of, nobody_there
from penstock.pipeline.running.registry import Entry
from penstock.pipeline.running.run import run_pipeline
from tests.pipeline.running.scene import MINIMAL, pipeline_in

NOWHERE = "bootstrap: 127.0.0.1:1\n"


def test_one_broker_that_listens_is_enough(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        servers = f"127.0.0.1:1,127.0.0.1:{listening.getsockname()[1]}"
        assert nobody_there(pipeline_in(tmp_path, f"{MINIMAL}bootstrap: {servers}\n")) is None


def test_a_pipeline_without_topics_needs_no_broker(tmp_path: Path) -> None:
    text = f"name: n\nsources: {{g: {{generate: 1}}}}\nsinks: {{c: {{console: 1}}}}\n{NOWHERE}"
    assert nobody_there(pipeline_in(tmp_path, text)) is None


def test_a_broker_that_is_down_is_told_before_spark_is_started(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(Problem, match=r"no broker answers \(127.0.0.1:1: Connection refused\)"):
        run_pipeline(pipeline_in(tmp_path, MINIMAL + NOWHERE))
    assert time.monotonic() < began + 3
    seen = Entry("orders").read()
    assert seen is not None
    assert seen.state == "failed"


def test_a_broker_that_is_down_is_waited_for_as_often_as_the_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_SECONDS", 0.01)
    told: list[str] = []
    retrying = "on_error: {policy: retry, attempts: 3}\n"
    with pytest.raises(Problem, match="no broker answers"):
        run_pipeline(
            pipeline_in(tmp_path, MINIMAL + NOWHERE + retrying),
            listener=lambda status: told.append(status.message),
        )
    assert [each[-14:] for each in told if "attempt" in each] == [
        "attempt 1 of 3",
        "attempt 2 of 3",
        "attempt 3 of 3",
    ]


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("localhost:9192", ("localhost", 9192)),
        (" one.example ", ("one.example", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        ("[::1]", ("::1", 9092)),
    ],
)
def test_addresses_are_hosts_and_ports(server: str, address: tuple[str, int]) -> None:
    assert address_of(server) == address

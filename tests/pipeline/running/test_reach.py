from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.checkpoint import checkpoint_root
from penstock.pipeline.problem import Problem
from penstock.pipeline.running import retry
from penstock.pipeline.running.reach import address_of, nobody_there, topic_missing
from penstock.pipeline.running.registry import Entry
from penstock.pipeline.running.run import run_pipeline
from penstock.pipeline.running.status import DONE, PipelineStatus
from penstock.pipeline.sinks.topic_places import create_topic
from penstock.pipeline.spec.model import Pipeline
from penstock.testing import Broker
from tests.pipeline.running.scene import MINIMAL, pipeline_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def of_topic(folder: Path, broker: Broker, topic: str, more: str = "") -> Pipeline:
    text = MINIMAL.replace("topic: orders", f"topic: '{topic}'")
    return pipeline_in(folder, f"{text}bootstrap: {broker.bootstrap_servers}\n{more}")


def test_a_topic_that_is_not_there_is_named_before_spark_is_started(
    tmp_path: Path, pipeline_broker: Broker, topic: str
) -> None:
    create_topic({"bootstrap.servers": pipeline_broker.bootstrap_servers}, topic, 1)
    pipeline = of_topic(tmp_path, pipeline_broker, f"{topic}, no-such-topic")
    with pytest.raises(Problem, match="there is no topic 'no-such-topic' at ") as told:
        run_pipeline(pipeline)
    assert "penstock topic create no-such-topic" in told.value.advice
    assert told.value.place.line == 3


def test_nobody_asks_for_topics_once_a_batch_was_begun(
    tmp_path: Path, pipeline_broker: Broker
) -> None:
    """Who reads can tell which records are gone with the topic."""
    pipeline = of_topic(tmp_path, pipeline_broker, "no-such-topic")
    assert topic_missing(pipeline) is not None
    offsets = Path(checkpoint_root(pipeline), "queries", "orders", "offsets")
    offsets.mkdir(parents=True)
    assert topic_missing(pipeline) is not None
    (offsets / "0").touch()
    assert topic_missing(pipeline) is None


def test_a_topic_that_the_pipeline_makes_itself_is_not_missed(
    tmp_path: Path, pipeline_broker: Broker
) -> None:
    text = (
        "name: n\nsources: {g: {generate: 1}, back: {topic: own-topic}}\n"
        "sinks: {out: {from: g, topic: own-topic}, c: {from: back, console: 1}}\n"
    )
    pipeline = pipeline_in(tmp_path, f"{text}bootstrap: {pipeline_broker.bootstrap_servers}\n")
    assert topic_missing(pipeline) is None


def test_a_topic_is_waited_for_as_the_file_says(
    tmp_path: Path,
    pipeline_broker: Broker,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "FIRST_SECONDS", 0.01)
    pipeline = of_topic(
        tmp_path, pipeline_broker, "made-meanwhile", "on_error: {policy: retry, attempts: 3}\n"
    )
    told: list[str] = []

    def listen(status: PipelineStatus) -> None:
        told.append(status.message)
        if "attempt 2 of 3" in status.message:
            create_topic({"bootstrap.servers": pipeline.bootstrap}, "made-meanwhile", 1)

    assert run_pipeline(pipeline, session=spark, once=True, listener=listen).state == DONE
    assert sum("there is no topic" in each for each in told) == 2
    first = next(number for number, each in enumerate(told) if "there is no topic" in each)
    assert told.index("Spark") < first, "Spark is ready when the topic comes"


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

"""Pipelines run for real, in the session that tests share."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.pipeline.checkpoint import checkpoint_root
from penstock.pipeline.problem import Problem
from penstock.pipeline.running import retry
from penstock.pipeline.running.query import RunningQuery
from penstock.pipeline.running.registry import Entry
from penstock.pipeline.running.reset import forget_checkpoint
from penstock.pipeline.running.run import preferred_settings, run_pipeline
from penstock.pipeline.running.signals import Stop
from penstock.pipeline.running.status import DONE, RUNNING, STOPPED, PipelineStatus
from penstock.pipeline.spec.model import Pipeline
from penstock.testing import Broker
from tests.pipeline.running.scene import MINIMAL, pipeline_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS_MAX = 90.0

# A sink that writes down what it is given, one line a batch, and can be told to be slow or to fail.
DELIVER = """\
import pathlib, time

def send(batch, batch_id, folder, slow="0", fail="0"):
    folder = pathlib.Path(folder)
    tries = folder / "tries"
    with tries.open("a") as file:
        file.write("x")
    if len(tries.read_text()) <= int(fail):
        raise ConnectionError("the sink is down")
    (folder / "begun").touch()
    time.sleep(float(slow))
    with (folder / "written").open("a") as file:
        file.write(f"{batch_id} {batch.count()}\\n")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deliver.py").write_text(DELIVER)
    return tmp_path


def fill(broker: Broker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, json.dumps({"id": number}).encode(), str(number).encode())
    assert producer.flush(30) == 0


def pipeline_of(
    folder: Path, broker: Broker, topic: str, more: str = "", sink: str = ""
) -> Pipeline:
    text = (
        f"name: {topic}\n"
        f"bootstrap: {broker.bootstrap_servers}\n"
        f"sources: {{orders: {{topic: {topic}}}}}\n"
        f"sinks: {{out: {{python: deliver.py:send, options: {{folder: {folder}{sink}}}}}}}\n"
    )
    return pipeline_in(folder, text + more, f"{topic}.yml")


def written(folder: Path) -> list[tuple[int, int]]:
    """Batch and rows of everything that the sink was given."""
    lines = (folder / "written").read_text().splitlines()
    return [(int(batch), int(rows)) for batch, rows in (line.split() for line in lines)]


def committed(broker: Broker, group: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {each.partition: each.offset for each in future.result(20).topic_partitions}


def ends(broker: Broker, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "ends"})
    partitions = consumer.list_topics(topic).topics[topic].partitions
    found = {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), 10)[1]
        for number in partitions
    }
    consumer.close()
    return found


def in_background(work: Callable[[], PipelineStatus]) -> Callable[[], PipelineStatus]:
    """Start the work; what is returned waits for its end."""
    outcome: list[PipelineStatus | BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as fault:  # noqa: BLE001 - raised again below
            outcome.append(fault)

    thread = threading.Thread(target=run)
    thread.start()

    def wait() -> PipelineStatus:
        thread.join(SECONDS_MAX)
        assert not thread.is_alive()
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]

    return wait


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_bounded_run_takes_what_is_there_and_commits_it_to_the_group(
    spark: SparkSession, pipeline_broker: Broker, topic: str, folder: Path
) -> None:
    fill(pipeline_broker, topic, 100)
    pipeline = pipeline_of(folder, pipeline_broker, topic)
    status = run_pipeline(pipeline, session=spark, once=True)
    assert (status.state, status.rows, status.lag, status.bad) == (DONE, 100, 0, 0)
    assert written(folder) == [(0, 100)]
    reached = committed(pipeline_broker, pipeline.group)
    assert reached == {
        number: end for number, end in ends(pipeline_broker, topic).items() if number in reached
    }
    assert sum(reached.values()) == 100

    fill(pipeline_broker, topic, 7)
    again = run_pipeline(pipeline, session=spark, once=True)
    assert again.rows == 7
    assert written(folder) == [(0, 100), (1, 7)]
    assert sum(committed(pipeline_broker, pipeline.group).values()) == 107


def test_a_wish_to_stop_lets_the_batch_in_hand_finish(
    spark: SparkSession, pipeline_broker: Broker, topic: str, folder: Path
) -> None:
    fill(pipeline_broker, topic, 10)
    pipeline = pipeline_of(folder, pipeline_broker, topic, sink=", slow: '2'")
    stop = Stop()
    told: list[str] = []
    wait = in_background(
        lambda: run_pipeline(
            pipeline, session=spark, stop=stop, listener=lambda s: told.append(s.state)
        )
    )
    wait_for((folder / "begun").exists, "no batch was begun")
    seen = Entry(topic).read()
    assert seen is not None
    assert (seen.state, seen.pid) == (RUNNING, os.getpid())
    fill(pipeline_broker, topic, 10)
    stop.ask()
    status = wait()
    assert status.state == STOPPED
    assert written(folder) == [(0, 10)]
    assert sum(committed(pipeline_broker, pipeline.group).values()) == 10
    assert told[0] == "starting"
    assert told[-2:] == ["stopping", "stopped"]

    run_pipeline(pipeline, session=spark, once=True)
    assert written(folder) == [(0, 10), (1, 10)]


def test_a_failure_while_one_looks_is_no_end(
    spark: SparkSession,
    pipeline_broker: Broker,
    topic: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: set[object] = set()

    def active(query: RunningQuery) -> bool:
        """As if each query ended right after somebody had asked."""
        if query.streaming.isActive or query.streaming.id in ended:
            return bool(query.streaming.isActive)
        ended.add(query.streaming.id)
        return True

    monkeypatch.setattr(RunningQuery, "active", property(active))
    fill(pipeline_broker, topic, 10)
    pipeline = pipeline_of(folder, pipeline_broker, topic, sink=", fail: '1'")
    with pytest.raises(Problem, match="the sink is down"):
        run_pipeline(pipeline, session=spark, once=True)


def test_a_sink_that_is_down_is_waited_for_if_the_file_says_retry(
    spark: SparkSession,
    pipeline_broker: Broker,
    topic: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "FIRST_SECONDS", 0.1)
    fill(pipeline_broker, topic, 10)
    retrying = "on_error: {policy: retry, attempts: 3}\n"
    pipeline = pipeline_of(folder, pipeline_broker, topic, retrying, sink=", fail: '2'")
    messages: list[str] = []
    status = run_pipeline(
        pipeline, session=spark, once=True, listener=lambda s: messages.append(s.message)
    )
    assert (status.state, status.restarts) == (DONE, 2)
    assert written(folder) == [(0, 10)]
    assert any(
        each.endswith("ConnectionError: the sink is down; attempt 2 of 3") for each in messages
    )


def test_a_sink_that_is_down_stops_other_pipelines_with_its_reason(
    spark: SparkSession, pipeline_broker: Broker, topic: str, folder: Path
) -> None:
    fill(pipeline_broker, topic, 10)
    pipeline = pipeline_of(folder, pipeline_broker, topic, sink=", fail: '1'")
    with pytest.raises(Problem, match="the sink is down"):
        run_pipeline(pipeline, session=spark, once=True)
    seen = Entry(topic).read()
    assert seen is not None
    assert seen.state == "failed"
    assert seen.message.endswith("ConnectionError: the sink is down")
    run_pipeline(pipeline, session=spark, once=True)
    assert written(folder) == [(0, 10)]


COUNT = """\
steps:
  - sql: SELECT value, count(*) AS n{more} FROM orders {where} GROUP BY value
    emit: update
"""


def test_a_changed_query_is_refused_with_advice_and_a_harmless_change_is_not(
    spark: SparkSession, pipeline_broker: Broker, topic: str, folder: Path
) -> None:
    fill(pipeline_broker, topic, 10)

    def run(more: str = "", where: str = "", topics: str = "") -> PipelineStatus:
        text = COUNT.format(more=more, where=where)
        pipeline = pipeline_of(folder, pipeline_broker, topic, text)
        if topics:
            source = f"topic: '{topics}'"
            changed = Path(pipeline.place.file).read_text().replace(f"topic: {topic}", source)
            pipeline = pipeline_in(folder, changed, f"{topic}.yml")
        return run_pipeline(pipeline, session=spark, once=True)

    assert run().rows == 10
    assert run(where="WHERE length(value) > 1").state == DONE
    with pytest.raises(Problem, match="the state of the view 'step1' changed") as raised:
        run(more=", max(_offset) AS last")
    assert "then: aggregate count(1) by value" in raised.value.what
    assert "now:  aggregate count(1), max(_offset) by value" in raised.value.what
    assert "penstock pipeline reset" in raised.value.advice
    with pytest.raises(Problem, match="the sources of the view 'step1' changed"):
        run(topics=f"{topic},{topic}.more")
    assert forget_checkpoint(pipeline_of(folder, pipeline_broker, topic))
    assert run(more=", max(_offset) AS last").rows == 10


def test_a_view_under_another_name_is_refused(
    spark: SparkSession, pipeline_broker: Broker, topic: str, folder: Path
) -> None:
    fill(pipeline_broker, topic, 10)
    step = "steps: [{{filter: length(value) > 1, as: {}}}]\n"
    pipeline = pipeline_of(folder, pipeline_broker, topic, step.format("long"))
    run_pipeline(pipeline, session=spark, once=True)
    renamed = pipeline_of(folder, pipeline_broker, topic, step.format("longer"))
    with pytest.raises(Problem, match="'long' was written before, and now 'longer' is"):
        run_pipeline(renamed, session=spark, once=True)


def test_a_checkpoint_that_spark_alone_can_reach_is_kept_there(
    spark: SparkSession, pipeline_broker: Broker, topic: str, folder: Path
) -> None:
    fill(pipeline_broker, topic, 10)
    far = folder / "far"
    pipeline = pipeline_of(folder, pipeline_broker, topic, f"checkpoint: file://{far}\n")
    run_pipeline(pipeline, session=spark, once=True)
    mark = (far / "penstock.json").read_text()
    fill(pipeline_broker, topic, 5)
    run_pipeline(pipeline, session=spark, once=True)
    assert written(folder) == [(0, 10), (1, 5)]
    assert (far / "penstock.json").read_text() == mark
    assert not os.path.exists("file:")
    other = pipeline_of(folder, pipeline_broker, topic, "")
    text = Path(other.place.file).read_text().replace(f"name: {topic}", "name: another")
    with pytest.raises(Problem, match=f"the checkpoint of the pipeline {topic!r}"):
        run_pipeline(
            pipeline_in(folder, f"{text}checkpoint: file://{far}\n"), session=spark, once=True
        )


def test_another_pipelines_checkpoint_is_refused(
    spark: SparkSession, pipeline_broker: Broker, topic: str, folder: Path
) -> None:
    pipeline = pipeline_of(folder, pipeline_broker, topic, "checkpoint: same\n")
    os.makedirs(checkpoint_root(pipeline))
    Path(checkpoint_root(pipeline), "penstock.json").write_text(
        '{"pipeline": "another", "id": "abc"}'
    )
    with pytest.raises(Problem, match="the checkpoint of the pipeline 'another'"):
        run_pipeline(pipeline, session=spark, once=True)


def test_only_who_wrote_python_is_told_its_lines(tmp_path: Path) -> None:
    """To tell the JVM where each expression comes from is most of what assembling one costs."""
    key = "spark.python.sql.dataFrameDebugging.enabled"
    assert preferred_settings(pipeline_in(tmp_path))[key] == "false"
    (tmp_path / "transforms.py").write_text("def enrich(rows):\n    return rows\n")
    steps = "steps: [{python: transforms.py:enrich}]\n"
    assert key not in preferred_settings(pipeline_in(tmp_path, f"{MINIMAL}{steps}"))

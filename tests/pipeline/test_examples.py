"""Every example under examples/pipelines does what its first lines say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.pipeline.running.run import run_pipeline
from penstock.pipeline.spec.read import read_pipeline
from penstock.testing import Broker

if TYPE_CHECKING:
    from confluent_kafka import Message
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"
ANSWER_SECONDS_MAX = 60.0


class Stage:
    """A broker, a Spark session, and a copy of one example."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self._bootstrap = broker.bootstrap_servers

    def run(self, example: str, **variables: str) -> None:
        """Run an example on what is there now, from where it ended the last time."""
        copy = self.folder / example
        shutil.copytree(EXAMPLES / example, copy, dirs_exist_ok=True)
        environment = {"BOOTSTRAP": self._bootstrap, "WORK": str(self.folder), **variables}
        pipeline = read_pipeline(copy / "pipeline.yml", environment)
        run_pipeline(pipeline, once=True, session=self.spark)

    def put(self, topic: str, records: Iterable[tuple[str | None, Any]]) -> None:
        """Send records, by key; values that are no text become JSON."""
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for key, value in records:
            text = value if isinstance(value, str | None) else json.dumps(value)
            producer.produce(topic, key=key, value=text)
        assert producer.flush(ANSWER_SECONDS_MAX) == 0

    def messages(self, topic: str) -> list[Message]:
        """All committed records of a topic."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "examples",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        partitions = consumer.list_topics(topic, ANSWER_SECONDS_MAX).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        found: list[Message] = []
        ended = 0
        while ended < len(partitions):
            message = consumer.poll(ANSWER_SECONDS_MAX)
            assert message is not None, f"{topic} ends nowhere"
            if message.error() is None:
                found.append(message)
            else:
                ended += 1
        consumer.close()
        return found

    def values(self, topic: str) -> list[Any]:
        """All values of a topic, out of JSON."""
        return [json.loads(message.value() or b"null") for message in self.messages(topic)]


@pytest.fixture
def stage(spark: SparkSession, pipeline_broker: Broker, tmp_path: Path) -> Stage:
    return Stage(spark, pipeline_broker, tmp_path)


def test_every_example_is_tested() -> None:
    tested = {name for each in globals() if (name := each.removeprefix("test_")) != each}
    folders = {each.name for each in EXAMPLES.iterdir() if each.is_dir()}
    assert {each.replace("-", "_") for each in folders} <= tested


def test_word_count(stage: Stage) -> None:
    stage.put("lines", [(None, "To be, or not to be"), (None, "that is the question")])
    stage.run("word-count")
    stage.put("lines", [(None, "Be that as it may")])
    stage.run("word-count")
    counts = {each["word"]: each["count"] for each in stage.values("word-counts")}
    assert counts["to"] == 2 and counts["be"] == 3 and counts["that"] == 2 and counts["may"] == 1
    keys = {message.key() for message in stage.messages("word-counts")}
    assert b"question" in keys


def test_late_windows(stage: Stage) -> None:
    def hit(page: str, clock: str, size: int) -> tuple[str, Any]:
        return page, {"page": page, "bytes": size, "at": f"2026-11-01T{clock}Z"}

    stage.put("hits", [hit("/", "10:01:00", 1), hit("/", "10:06:00", 2)])
    stage.run("late-windows")
    # Late, and not too late: the watermark is at 09:56.
    stage.put("hits", [hit("/", "10:02:00", 4), hit("/", "10:30:00", 8)])
    stage.run("late-windows")
    # Now it is at 10:20, and this window was written.
    stage.put("hits", [hit("/", "10:03:00", 16), hit("/", "10:50:00", 32)])
    stage.run("late-windows")
    windows = [
        (each["window_start"][11:16], each["hits"], each["bytes"])
        for each in stage.values("hits-per-page")
    ]
    assert sorted(windows) == [("10:00", 2, 5), ("10:05", 1, 2), ("10:30", 1, 8)]


def test_sessions(stage: Stage) -> None:
    def click(user: str, page: str, clock: str) -> tuple[str, Any]:
        return user, {"user": user, "page": page, "at": f"2026-11-01T{clock}Z"}

    stage.put(
        "clicks",
        [
            click("ann", "home", "10:00:00"),
            click("ann", "book", "10:20:00"),
            click("bob", "home", "10:05:00"),
            click("ann", "home", "11:00:00"),
        ],
    )
    stage.run("sessions")
    stage.put("clicks", [click("ann", "cart", "11:10:00"), click("eve", "home", "13:00:00")])
    stage.run("sessions")
    visits = sorted((each["user"], each["clicks"], each["path"]) for each in stage.values("visits"))
    assert visits == [("ann", 2, "home > book"), ("ann", 2, "home > cart"), ("bob", 1, "home")]


def test_stream_table_join(stage: Stage) -> None:
    stage.put("customers", [("a", {"name": "Ann", "city": "Ulm"}), ("b", {"name": "Bob"})])
    stage.put("customers", [("a", {"name": "Anna", "city": "Ulm"}), ("b", None)])
    order = {"id": 1, "customer": "a", "amount": 12.5}
    stage.put("orders", [("a", order), ("b", {**order, "id": 2, "customer": "b"})])
    stage.run("stream-table-join")
    found = {each["id"]: each.get("name") for each in stage.values("orders-enriched")}
    assert found == {1: "Anna", 2: None}


def test_change_capture(stage: Stage) -> None:
    def change(op: str, before: Any, after: Any) -> tuple[str, Any]:
        row = after or before
        return str(row["id"]), {"op": op, "ts_ms": 1, "before": before, "after": after}

    ann = {"id": 1, "name": "Ann", "city": "Ulm"}
    bob = {"id": 2, "name": "Bob", "city": "Kiel"}
    eve = {"id": 3, "name": "Eve", "city": "Bonn"}
    anna = {**ann, "name": "Anna"}
    stage.put("shop.customers", [change("r", None, ann), change("c", None, bob)])
    stage.run("change-capture")
    stage.put(
        "shop.customers",
        [
            change("u", ann, {**ann, "name": "An"}),
            change("u", ann, anna),
            change("d", bob, None),
            change("c", None, eve),
            change("d", eve, None),
        ],
    )
    stage.run("change-capture")
    rows = stage.spark.read.table("penstock_customers.shop.customers").select("id", "name", "city")
    assert [tuple(row) for row in rows.collect()] == [(1, "Anna", "Ulm")]


LOG = """\
10.0.0.1 - - [01/Nov/2026:10:00:01 +0000] "GET /books HTTP/1.1" 200 512 12
10.0.0.2 - - [01/Nov/2026:10:00:30 +0000] "GET /books HTTP/1.1" 503 - 900
what is this line
10.0.0.1 - - [01/Nov/2026:10:05:00 +0000] "GET /pens HTTP/1.1" 200 64 8
10.0.0.1 - - [02/Nov/2026:00:00:05 +0000] "GET /pens HTTP/1.1" 200 64 9
"""


def test_log_analytics(stage: Stage) -> None:
    logs = stage.folder / "logs"
    logs.mkdir()
    (logs / "access.log").write_text(LOG)
    stage.run("log-analytics")
    lake = stage.spark.read.parquet(str(stage.folder / "lake"))
    by_day = {str(row.day): row["count"] for row in lake.groupBy("day").count().collect()}
    assert by_day == {"2026-11-01": 3, "2026-11-02": 1}
    minutes = {each["path"]: each for each in stage.values("log-minutes")}
    assert minutes["/books"]["hits"] == 2 and minutes["/books"]["failures"] == 1
    assert minutes["/books"]["slowest_millis"] == 900
    (dead,) = stage.messages("log-analytics.dlq")
    assert dead.value() == b"what is this line"


def test_replay_day(stage: Stage) -> None:
    rows = [
        (1, "a", Decimal("5.00"), "2026-11-01 10:00:00", "2026-11-01"),
        (2, "b", Decimal("7.50"), "2026-11-01 11:00:00", "2026-11-01"),
        (3, "a", Decimal("9.00"), "2026-11-02 10:00:00", "2026-11-02"),
    ]
    frame = stage.spark.createDataFrame(
        rows, "id long, customer string, amount decimal(10,2), at string, day string"
    )
    frame = frame.withColumn("at", frame["at"].cast("timestamp"))
    frame.write.partitionBy("day").parquet(str(stage.folder / "lake"))
    stage.run("replay-day", DAY="2026-11-01")
    found = sorted(stage.messages("orders-replayed"), key=lambda each: each.key() or b"")
    assert [json.loads(each.value() or b"")["id"] for each in found] == [1, 2]
    assert [each.key() for each in found] == [b"a", b"b"]
    assert found[0].timestamp()[1] == 1793527200000
    assert found[0].headers() == [("replayed-from", b"2026-11-01")]

"""Spark's own Kafka connector, as its users have it: nothing of Penstock's between the two."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.oracle.nodes import Node
from tests.pipeline.spark.child import SparkChild
from tests.pipeline.spark.missing import skipped_without_spark

SECONDS_MAX = 60.0

Row = tuple[str | None, str | None, int, int]
"""Key, value, partition, offset."""


# --- done in the process that has Spark ----------------------------------------------------------


def plain_session(jars: list[str], java: str) -> Any:
    """A session as PySpark's documentation makes it."""
    import os
    import sys

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": java}
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("connector")
    for key, value in {
        "spark.jars": ",".join(jars),
        "spark.driver.memory": "700m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def read(spark: Any, options: dict[str, str]) -> list[Row]:
    rows = spark.read.format("kafka").options(**options).load()
    texts = rows.selectExpr(
        "cast(key as string)", "cast(value as string)", "partition", "offset"
    ).collect()
    return sorted(tuple(row) for row in texts)


def read_tasks(spark: Any, options: dict[str, str]) -> tuple[int, int]:
    """How many tasks share the reading, and how many rows they find."""
    rows = spark.read.format("kafka").options(**options).load()
    return rows.rdd.getNumPartitions(), rows.count()


def read_headers(spark: Any, options: dict[str, str]) -> list[tuple[str, list[tuple[str, Any]]]]:
    rows = spark.read.format("kafka").options(**options, includeHeaders="true").load()
    found = rows.selectExpr("cast(value as string) as value", "headers").collect()
    return sorted(
        (row.value, [(one.key, bytes(one.value)) for one in row.headers or []]) for row in found
    )


def write(spark: Any, query: str, options: dict[str, str]) -> None:
    spark.sql(query).write.format("kafka").options(**options).save()


def stream_all(
    spark: Any, options: dict[str, str], folder: str
) -> tuple[list[str], list[int], str | None]:
    """Stream all that is there into files: the values so far, rows per batch, and the complaint."""
    from pyspark.errors import StreamingQueryException

    values = spark.readStream.format("kafka").options(**options).load()
    query = (
        values.selectExpr("cast(value as string) as value")
        .writeStream.format("parquet")
        .option("path", f"{folder}/out")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    complaint = None
    try:
        query.awaitTermination(SECONDS_MAX)
    except StreamingQueryException as failure:
        complaint = str(failure)
    batches = [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]
    found = spark.read.schema("value string").parquet(f"{folder}/out").collect()
    return sorted(row.value for row in found), batches, complaint


def start_copying(spark: Any, source: dict[str, str], sink: dict[str, str], folder: str) -> None:
    """Start a query that never ends, from topics to a topic."""
    spark.readStream.format("kafka").options(**source).load().select(
        "key", "value", "headers"
    ).writeStream.format("kafka").options(**sink).option("checkpointLocation", folder).start()


def stop_copying(spark: Any) -> None:
    for query in spark.streams.active:
        query.stop()


# --- seen from outside ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spark_child() -> Iterator[SparkChild]:
    from penstock.pipeline.spark.jars import jars_for
    from penstock.pipeline.spark.java import find_java

    with skipped_without_spark():
        jars = [str(jar) for jar in jars_for(frozenset())]
        java = str(find_java().home)
    with SparkChild(plain_session, jars, java) as child:
        yield child


@pytest.fixture(scope="module")
def admin(broker: Node) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def new_topic(admin: AdminClient, topic: str) -> str:
    """A topic of two partitions."""
    create(admin, topic)
    return topic


def create(admin: AdminClient, topic: str, partitions: int = 2) -> None:
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(SECONDS_MAX)


def produce(broker: Node, topic: str, values: range, **more: Any) -> None:
    """Values of even numbers go to partition 0, the others to 1."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for each in values:
        producer.produce(topic, str(each), f"key {each}", partition=each % 2, **more)
    assert producer.flush(SECONDS_MAX) == 0


def produced(values: range) -> list[Row]:
    return sorted((f"key {each}", str(each), each % 2, each // 2) for each in values)


def source(broker: Node, topic: str, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    } | more


def test_a_batch_reads_what_was_produced(
    spark_child: SparkChild, broker: Node, new_topic: str
) -> None:
    produce(broker, new_topic, range(100))
    assert spark_child.do(read, source(broker, new_topic)) == produced(range(100))


def test_a_batch_writes_keys_headers_and_partitions(
    spark_child: SparkChild, broker: Node, new_topic: str
) -> None:
    query = """
        select cast(id as string) as key, concat('value ', id) as value,
          cast(id % 2 as int) as partition,
          array(struct('h' as key, encode(id, 'utf-8') as value)) as headers
        from range(10)"""
    sink = {"kafka.bootstrap.servers": broker.bootstrap, "topic": new_topic}
    spark_child.do(write, query, sink)
    found = spark_child.do(read, source(broker, new_topic))
    assert [(key, value, at) for key, value, at, _ in found] == [
        (str(n), f"value {n}", n % 2) for n in range(10)
    ]
    headers = spark_child.do(read_headers, source(broker, new_topic))
    assert headers == [(f"value {n}", [("h", b"%d" % n)]) for n in range(10)]


def test_headers_arrive_in_their_order_and_doubled_ones_too(
    spark_child: SparkChild, broker: Node, new_topic: str
) -> None:
    headers = [("b", b"1"), ("a", b""), ("b", b"\x00\xff")]
    produce(broker, new_topic, range(1), headers=headers)
    assert spark_child.do(read_headers, source(broker, new_topic)) == [("0", headers)]


def test_offsets_of_each_partition_may_be_named(
    spark_child: SparkChild, broker: Node, new_topic: str
) -> None:
    produce(broker, new_topic, range(20))
    start = json.dumps({new_topic: {"0": 7, "1": -2}})
    end = json.dumps({new_topic: {"0": -1, "1": 4}})
    options = source(broker, new_topic, startingOffsets=start, endingOffsets=end)
    found = spark_child.do(read, options)
    assert sorted((at, offset) for _, _, at, offset in found) == [
        *((0, offset) for offset in range(7, 10)),
        *((1, offset) for offset in range(4)),
    ]


def test_a_timestamp_tells_where_to_start(
    spark_child: SparkChild, broker: Node, new_topic: str
) -> None:
    hour_ago_ms = int(time.time() * 1000) - 3_600_000
    produce(broker, new_topic, range(10), timestamp=hour_ago_ms)
    produce(broker, new_topic, range(10, 20), timestamp=hour_ago_ms + 1000)
    options = source(broker, new_topic, startingTimestamp=str(hour_ago_ms + 1))
    assert spark_child.do(read, options) == produced(range(10, 20))


def test_many_tasks_may_share_a_partition(
    spark_child: SparkChild, broker: Node, new_topic: str
) -> None:
    produce(broker, new_topic, range(100))
    assert spark_child.do(read_tasks, source(broker, new_topic)) == (2, 100)
    options = source(broker, new_topic, minPartitions="7")
    tasks, rows = spark_child.do(read_tasks, options)
    assert tasks >= 7
    assert rows == 100


def test_read_committed_leaves_out_what_was_aborted(
    spark_child: SparkChild, broker: Node, new_topic: str, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": new_topic})
    producer.init_transactions(SECONDS_MAX)
    for turn in range(6):
        producer.begin_transaction()
        for each in range(5):
            kept = "kept" if turn % 2 else "aborted"
            producer.produce(new_topic, f"{kept} {turn} {each}", partition=each % 2)
        producer.flush(SECONDS_MAX)
        if turn % 2:
            producer.commit_transaction(SECONDS_MAX)
        else:
            producer.abort_transaction(SECONDS_MAX)
    kept = sorted(f"kept {turn} {each}" for turn in (1, 3, 5) for each in range(5))

    options = source(broker, new_topic, **{"kafka.isolation.level": "read_committed"})
    assert sorted(value or "" for _, value, _, _ in spark_child.do(read, options)) == kept
    values, _, complaint = spark_child.do(stream_all, options, str(tmp_path))
    assert (values, complaint) == (kept, None)
    assert len(spark_child.do(read, source(broker, new_topic))) == 30


def test_a_stream_goes_on_where_its_checkpoint_ends_in_batches_of_the_size_asked_for(
    spark_child: SparkChild, broker: Node, new_topic: str, tmp_path: Path
) -> None:
    options = source(broker, new_topic, maxOffsetsPerTrigger="10")
    produce(broker, new_topic, range(25))
    values, batches, complaint = spark_child.do(stream_all, options, str(tmp_path))
    assert complaint is None
    assert values == sorted(map(str, range(25)))
    assert max(batches) <= 10
    produce(broker, new_topic, range(25, 31))
    values, batches, complaint = spark_child.do(stream_all, options, str(tmp_path))
    assert complaint is None
    assert values == sorted(map(str, range(31)))
    assert sum(batches) == 6


def test_deleted_records_fail_a_stream_unless_it_was_told_to_go_on(
    spark_child: SparkChild, broker: Node, admin: AdminClient, new_topic: str, tmp_path: Path
) -> None:
    produce(broker, new_topic, range(10))
    strict, lenient = str(tmp_path / "strict"), str(tmp_path / "lenient")
    options = source(broker, new_topic)
    for folder in (strict, lenient):
        assert spark_child.do(stream_all, options, folder)[2] is None
    produce(broker, new_topic, range(10, 30))
    cut = [TopicPartition(new_topic, 0, 10), TopicPartition(new_topic, 1, 10)]
    for future in admin.delete_records(cut).values():
        future.result(SECONDS_MAX)
    produce(broker, new_topic, range(30, 32))

    _, _, complaint = spark_child.do(stream_all, options, strict)
    assert complaint is not None
    assert "data may have been" in complaint or "DATA_LOSS" in complaint, complaint
    values, _, complaint = spark_child.do(
        stream_all, source(broker, new_topic, failOnDataLoss="false"), lenient
    )
    assert complaint is None
    assert values == sorted(map(str, [*range(10), *range(20, 32)]))


def test_a_pattern_finds_topics_that_appear_while_it_streams(
    spark_child: SparkChild, broker: Node, admin: AdminClient, topic: str, tmp_path: Path
) -> None:
    target = f"to-{topic}"
    create(admin, target, 1)
    create(admin, f"{topic}-1")
    produce(broker, f"{topic}-1", range(4), headers=[("from", b"1")])
    options = source(broker, "", includeHeaders="true", **{"kafka.metadata.max.age.ms": "500"}) | {
        "subscribePattern": f"{topic}-[0-9]+"
    }
    del options["subscribe"]
    sink = {"kafka.bootstrap.servers": broker.bootstrap, "topic": target}
    spark_child.do(start_copying, options, sink, str(tmp_path))
    try:
        wait_for_values(spark_child, broker, target, range(4))
        create(admin, f"{topic}-2")
        produce(broker, f"{topic}-2", range(4, 8), headers=[("from", b"2")])
        wait_for_values(spark_child, broker, target, range(8))
    finally:
        spark_child.do(stop_copying)
    headers = spark_child.do(read_headers, source(broker, target))
    assert headers == [(str(n), [("from", b"1" if n < 4 else b"2")]) for n in range(8)]


def wait_for_values(child: SparkChild, broker: Node, topic: str, values: range) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    wanted = sorted(map(str, values))
    while True:
        found = sorted(value or "" for _, value, _, _ in child.do(read, source(broker, topic)))
        if found == wanted:
            return
        assert time.monotonic() < deadline, f"{found} arrived, not {wanted}"
        time.sleep(0.2)

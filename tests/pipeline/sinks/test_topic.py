"""Topics as sinks: what records look like, where they go, and what is refused."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka.partitioner.default import murmur2

from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks.topic import stream_writer
from penstock.pipeline.sinks.topic_places import topics_there
from penstock.pipeline.spec.formats import Format
from penstock.pipeline.spec.sinks import TopicSink
from penstock.testing import Broker
from tests.pipeline.sinks.topic_scene import Scene

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRING = Format()


@pytest.fixture
def scene(spark: SparkSession, pipeline_broker: Broker, tmp_path: Path) -> Scene:
    return Scene(spark, pipeline_broker.bootstrap_servers, tmp_path)


def test_a_batch_that_is_played_again_is_not_written_again(scene: Scene) -> None:
    sink = scene.sink(key="name", partitions=4)
    rows = scene.numbers(0, 1000)
    sink.prepare(rows)
    assert topics_there({"bootstrap.servers": scene.bootstrap}, [scene.topic]) == {scene.topic: 4}
    sink.write(rows, 0)
    sink.write(rows, 0)
    scene.sink(key="name").write(rows, 0)
    sink.write(scene.numbers(1000, 1500), 1)
    ids = [json.loads(each)["id"] for each in scene.values()]
    assert sorted(ids) == list(range(1500))


def test_keys_keep_their_order_and_land_where_javas_clients_would_put_them(scene: Scene) -> None:
    scene.create(4)
    rows = scene.spark.range(0, 6000, numPartitions=3).selectExpr(
        "concat('key ', id div 100) AS name", "string(id) AS value"
    )
    scene.sink(key="name", value=STRING).write(rows, 0)
    by_key = defaultdict(list)
    for each in scene.records():
        assert each.partition() == (murmur2(each.key()) & 0x7FFFFFFF) % 4
        by_key[each.key()].append(int(each.value()))
    assert len(by_key) == 60
    assert all(
        ids == list(range(ids[0], ids[0] + 100)) and ids[0] % 100 == 0 for ids in by_key.values()
    )


def test_many_records_without_a_key_fill_all_partitions_alike_and_few_stay_together(
    scene: Scene,
) -> None:
    """Who reads the topic next, a task for each partition, waits for the fullest one."""
    scene.create(4)
    many = scene.spark.range(0, 200_000, numPartitions=2).selectExpr("string(id) AS value")
    scene.sink(value=STRING).write(many, 0)
    counts = Counter(each.partition() for each in scene.records())
    assert sum(counts.values()) == 200_000
    assert min(counts[partition] for partition in range(4)) > 20_000
    few, name = many.limit(20), f"{scene.name}.few"
    scene.create(50, name)
    scene.sink(topic=name, value=STRING).write(few, 1)
    assert len({each.partition() for each in scene.records(name)}) <= 8  # each by itself: 17


def test_headers_times_tombstones_and_topics_come_from_columns(scene: Scene) -> None:
    there = f"{scene.name}.a"
    scene.create(2, there)
    rows = scene.spark.sql(
        f"""SELECT '{there}' AS place, 'k1' AS name, 'one' AS value,
                   TIMESTAMP'2026-11-01 00:00:00Z' AS at, struct(1 AS n) AS extra
            UNION ALL SELECT '{scene.name}.b', NULL, 'two', NULL, NULL
            UNION ALL SELECT '{there}', 'k3', NULL, NULL, NULL"""
    )
    sink = scene.sink(
        topic="{place}",
        key="name",
        value=STRING,
        headers={"trace": "extra", "kind": "'x'"},
        timestamp="at",
        partitions=3,
    )
    sink.prepare(rows)
    sink.write(rows, 0)
    first, gone = sorted(scene.records(there), key=lambda each: each.key())
    assert (first.key(), first.value()) == (b"k1", b"one")
    assert first.headers() == [("trace", b'{"n":1}'), ("kind", b"x")]
    assert first.timestamp()[1] == datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1000
    assert (gone.key(), gone.value()) == (b"k3", None)
    assert gone.headers() == [("trace", None), ("kind", b"x")]
    (second,) = scene.records(f"{scene.name}.b")
    assert (second.key(), second.value()) == (None, b"two")


def test_a_row_without_a_topic_is_refused_and_nothing_of_its_slot_is_seen(scene: Scene) -> None:
    rows = scene.spark.sql(
        f"SELECT '{scene.name}.a' AS place, 'x' AS value UNION ALL SELECT NULL, 'x'"
    )
    sink = scene.sink(topic="{place}", value=STRING)
    sink.prepare(rows)
    with pytest.raises(Problem, match="does not say which topic"):
        sink.write(rows, 0)


def test_the_key_of_a_record_stays_with_it_unless_the_file_says_otherwise(scene: Scene) -> None:
    rows = scene.spark.sql("SELECT 'k' AS _key, 'v' AS value, 7 AS _offset")
    scene.create(1)
    scene.sink(value=STRING).write(rows, 0)
    scene.sink(value=STRING, key="concat(_key, _offset)").write(rows, 1)
    assert [each.key() for each in scene.records()] == [b"k", b"k7"]


def test_at_least_once_is_sparks_own_sink(scene: Scene) -> None:
    sink = scene.sink(key="name", headers={"h": "id"}, delivery="at-least-once", partitions=2)
    rows = scene.numbers(0, 10)
    sink.prepare(rows)
    sink.write(rows, 0)
    sink.write(rows, 0)
    records = scene.records()
    assert len(records) == 20
    assert {each.headers()[0][0] for each in records} == {"h"}
    with pytest.raises(Problem, match="cannot set a record's time"):
        scene.sink(delivery="at-least-once", timestamp="id").prepare(rows)


def test_a_stream_in_real_time_is_written_by_sparks_own_sink(scene: Scene) -> None:
    rows = scene.spark.readStream.format("rate").load().selectExpr("string(value) AS value")
    spec = TopicSink(topic=scene.topic, value=STRING)
    assert stream_writer(scene.context(), spec, rows) is not None
    with pytest.raises(Problem, match="cannot set a record's time"):
        stream_writer(scene.context(), TopicSink(topic="x", timestamp="value"), rows)


def test_a_record_that_is_too_large_is_named_with_its_key(scene: Scene) -> None:
    scene.create(1, config={"max.message.bytes": "20000"})
    rows = scene.spark.sql(
        "SELECT 'small' AS _key, 'x' AS value, 't' AS _topic, 1 AS _partition, 5L AS _offset "
        "UNION ALL SELECT 'big', repeat('x', 50000), 't', 1, 6L"
    )
    with pytest.raises(Problem, match=r"too large.*50,003 bytes.*'big'.*t-1@6") as told:
        scene.sink(value=STRING).write(rows, 0)
    assert "max.message.bytes" in told.value.advice
    assert scene.records() == []


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"key": "nmae"}, "key: nmae"),
        ({"headers": {"h": "id +"}}, r"headers\.h: id \+"),
        ({"timestamp": "tiem"}, "timestamp: tiem"),
        ({"topic": "{place}"}, "topic: place"),
    ],
)
def test_a_column_that_is_not_there_is_told_before_the_start(
    scene: Scene, keys: dict[str, object], message: str
) -> None:
    with pytest.raises(Problem, match=message) as told:
        scene.sink(**keys).prepare(scene.numbers(0, 1))
    assert "id, name" in told.value.advice


def test_a_name_that_no_topic_can_have_is_told_before_the_start(scene: Scene) -> None:
    with pytest.raises(Problem, match="cannot be a topic's name"):
        scene.sink(topic="no such/topic").prepare(scene.numbers(0, 1))

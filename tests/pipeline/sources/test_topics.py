"""Topics as sources, through a real broker and Spark's connector."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sources.topics import explain, open_source, topic_options
from penstock.pipeline.spec.formats import BINARY, Format
from penstock.pipeline.spec.model import Trigger
from penstock.pipeline.spec.sources import TopicSource
from penstock.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import Row

    Make = Callable[..., Context]
    Drain = Callable[..., list[Row]]


def produce(broker: Broker, topic: str, *values: bytes | None, **more: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, **more)
    assert producer.flush(30) == 0


def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def create(broker: Broker, topic: str, partitions: int = 1, **settings: str) -> None:
    client = admin(broker)  # held: without it, the answer would have nowhere to go
    client.create_topics([NewTopic(topic, partitions, config=settings)])[topic].result(30)


def create_archive(broker: Broker, topic: str) -> None:
    """A topic whose records may be of 1970: elsewhere the broker removes such ones any moment."""
    create(broker, topic, **{"retention.ms": "-1"})


@pytest.fixture
def read(pipeline_broker: Broker, make_context: Make, drain: Drain) -> Callable[..., list[Row]]:
    """What a source gives until the end of its topics; with the same checkpoint, what is new."""

    def run(spec: TopicSource, checkpoint: str = "default") -> list[Row]:
        context = make_context(spec, bootstrap=pipeline_broker.bootstrap_servers)
        return drain(open_source(context, "records", spec).rows, checkpoint)

    return run


def test_a_record_comes_with_its_key_headers_time_and_position(
    pipeline_broker: Broker, topic: str, read: Drain
) -> None:
    create_archive(pipeline_broker, topic)
    produce(pipeline_broker, topic, b"hello", key=b"k", headers=[("h", b"1")], timestamp=1000)
    (row,) = read(TopicSource(topic=topic))
    assert (row.value, row._key, row._topic, row._offset) == ("hello", "k", topic, 0)
    assert row._timestamp.timestamp() == 1.0
    assert [(each.key, bytes(each.value)) for each in row._headers] == [("h", b"1")]
    assert bytes(row._origin.value) == b"hello"


def test_bad_records_leave_by_the_errors_and_good_ones_stay(
    pipeline_broker: Broker, topic: str, make_context: Make, drain: Drain
) -> None:
    produce(pipeline_broker, topic, b'{"id": 1}', b"{oops", b'{"id": "x"}', None, key=b"k")
    produce(pipeline_broker, topic, b'{"id": 4}', key=b"\xff", headers=[("h", b"1")])
    spec = TopicSource(topic=topic, value=Format(format="json", schema="id long"))
    context = make_context(spec, policy="dlq", bootstrap=pipeline_broker.bootstrap_servers)
    view = open_source(context, "records", spec)
    # A tombstone is a row of nulls: it has a key, and that is what it is about.
    assert [(row.id, row._key) for row in drain(view.rows)] == [(1, "k"), (None, "k")]
    bad = sorted(drain(view.errors[0], "errors"), key=lambda row: row._origin.offset)
    assert [row.reason for row in bad] == [
        "it is not JSON: something follows the object, or its end is missing",
        "the field `id` is not a bigint: x",
        "key: it is not UTF-8",
    ]
    assert [bytes(row._origin.value) for row in bad] == [b"{oops", b'{"id": "x"}', b'{"id": 4}']
    last = bad[-1]._origin
    assert (last.source, last.topic, last.partition, last.offset) == ("records", topic, 0, 4)
    assert (bytes(last.key), last.headers[0].key) == (b"\xff", "h")


def test_dropped_records_are_counted_in_the_progress(
    pipeline_broker: Broker, topic: str, make_context: Make, tmp_path: Any
) -> None:
    produce(pipeline_broker, topic, b'{"id": 1}', b"x", b"y")
    spec = TopicSource(topic=topic, value=Format(format="json", schema="id long"))
    context = make_context(spec, policy="drop", bootstrap=pipeline_broker.bootstrap_servers)
    rows = open_source(context, "records", spec).rows
    taken: list[Any] = []
    query = (
        rows.writeStream.foreachBatch(lambda batch, _: taken.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path / "drop"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [row.id for row in taken] == [1]
    observed = [each.observedMetrics["penstock_errors"].bad for each in query.recentProgress]
    assert sum(observed) == 2


def test_a_bad_record_stops_the_pipeline_that_wants_no_bad_records(
    pipeline_broker: Broker, topic: str, read: Drain
) -> None:
    produce(pipeline_broker, topic, b'{"id": 1}', b"oops")
    with pytest.raises(Exception, match=rf"the record of {topic}-0 at offset 1 cannot be read"):
        read(TopicSource(topic=topic, value=Format(format="json", schema="id long")))


def test_a_pattern_finds_topics_and_new_partitions_are_read(
    pipeline_broker: Broker, topic: str, read: Drain
) -> None:
    create(pipeline_broker, f"{topic}.a")
    produce(pipeline_broker, f"{topic}.a", b"1")
    spec = TopicSource(pattern=rf"{topic}\..*")
    assert [row.value for row in read(spec)] == ["1"]
    create(pipeline_broker, f"{topic}.b")
    produce(pipeline_broker, f"{topic}.b", b"2")
    client = admin(pipeline_broker)
    client.create_partitions([NewPartitions(f"{topic}.a", 2)])[f"{topic}.a"].result(30)
    produce(pipeline_broker, f"{topic}.a", b"3", partition=1)
    assert sorted(row.value for row in read(spec)) == ["2", "3"]


def test_reading_begins_at_a_time_or_at_offsets(
    pipeline_broker: Broker, topic: str, read: Drain
) -> None:
    create_archive(pipeline_broker, topic)
    for day in (1, 2, 3):
        produce(pipeline_broker, topic, b"%d" % day, timestamp=day * 86_400_000)
    by_time = TopicSource(topic=topic, start="1970-01-03T00:00:00Z", value=BINARY)
    assert [bytes(row.value) for row in read(by_time, "time")] == [b"2", b"3"]
    by_offset = TopicSource(topic=topic, start=json.dumps({topic: {"0": 2}}))
    assert [row.value for row in read(by_offset, "offsets")] == ["3"]


def test_deleted_records_are_told_with_their_offsets_and_left_out_if_asked(
    pipeline_broker: Broker, topic: str, make_context: Make, drain: Drain, read: Drain
) -> None:
    create(pipeline_broker, topic)
    produce(pipeline_broker, topic, b"0", b"1")
    spec = TopicSource(topic=topic)
    assert len(read(spec)) == 2
    produce(pipeline_broker, topic, b"2", b"3", b"4", b"5")
    client = admin(pipeline_broker)
    gone = TopicPartition(topic, 0, 5)
    next(iter(client.delete_records([gone]).values())).result(30)
    with pytest.raises(Exception) as caught:
        read(spec)
    context = make_context(spec, bootstrap=pipeline_broker.bootstrap_servers)
    problem = explain(caught.value, context)
    assert problem is not None
    assert f"{topic}-0: 3 records, from offset 2 to 4" in problem.what
    assert "data_loss: continue" in problem.advice
    going_on = TopicSource(topic=topic, data_loss="continue")
    assert [row.value for row in read(going_on)] == ["5"]


def test_other_errors_are_not_explained_as_lost_records(make_context: Make) -> None:
    assert explain(ValueError("something else"), make_context()) is None


@pytest.mark.parametrize("start", ["yesterday", "{oops}"])
def test_a_start_that_is_no_place_is_refused(make_context: Make, start: str) -> None:
    spec = TopicSource(topic="t", start=start)
    with pytest.raises(Problem, match="from") as caught:
        topic_options(make_context(spec), spec)
    assert caught.value.advice


def test_what_the_file_says_wins_over_what_penstock_chose(make_context: Make) -> None:
    spec = TopicSource(topic="a, b", batch_records_max=5, options={"kafka.max.poll.records": "7"})
    options = topic_options(make_context(spec), spec)
    assert options["kafka.max.poll.records"] == "7"
    assert options["maxOffsetsPerTrigger"] == "5"
    assert options["subscribe"] == "a,b"
    assert options["kafka.isolation.level"] == "read_committed"


def test_a_batch_waits_for_nothing_at_its_end_and_a_stream_in_real_time_does(
    make_context: Make,
) -> None:
    spec = TopicSource(topic="t")
    context = make_context(spec)
    assert topic_options(context, spec)["kafka.fetch.max.wait.ms"] == "10"
    pipeline = replace(context.pipeline, trigger=Trigger(real_time="5 minutes"))
    context = Context(context.spark, pipeline, context.checkpoint)
    assert "kafka.fetch.max.wait.ms" not in topic_options(context, spec)


def test_a_payload_may_not_be_called_what_describes_the_record(make_context: Make) -> None:
    spec = TopicSource(topic="t", value=Format(format="json", schema="_key string"))
    with pytest.raises(Problem, match="the payload has a field '_key'") as caught:
        open_source(make_context(spec, bootstrap="127.0.0.1:9"), "records", spec)
    assert caught.value.advice

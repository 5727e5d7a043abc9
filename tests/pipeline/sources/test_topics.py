"""Topics as sources, through a real broker and Spark's connector."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from penstock.pipeline.context import Context
from penstock.pipeline.sources.topics import open_source
from penstock.pipeline.spec.formats import Format
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


def test_a_record_comes_with_its_key_headers_time_and_position(
    pipeline_broker: Broker, topic: str, make_context: Make, drain: Drain
) -> None:
    produce(pipeline_broker, topic, b"hello", key=b"k", headers=[("h", b"1")], timestamp=1000)
    spec = TopicSource(topic=topic)
    context = make_context(spec, bootstrap=pipeline_broker.bootstrap_servers)
    view = open_source(context, "records", spec)
    (row,) = drain(view.rows)
    assert (row.value, row._key, row._topic, row._offset) == ("hello", "k", topic, 0)
    assert row._timestamp.timestamp() == 1.0
    assert [(each.key, bytes(each.value)) for each in row._headers] == [("h", b"1")]
    assert bytes(row._origin.value) == b"hello"


def test_bad_records_leave_by_the_errors_and_good_ones_stay(
    pipeline_broker: Broker, topic: str, make_context: Make, drain: Drain
) -> None:
    produce(pipeline_broker, topic, b'{"id": 1}', b"{oops", b'{"id": "x"}', b'{"id": 4}', key=b"k")
    spec = TopicSource(topic=topic, value=Format(format="json", schema="id long"))
    context = make_context(spec, policy="dlq", bootstrap=pipeline_broker.bootstrap_servers)
    view = open_source(context, "records", spec)
    assert sorted(row.id for row in drain(view.rows)) == [1, 4]
    bad = sorted(drain(view.errors[0], "errors"), key=lambda row: row._origin.offset)
    assert [row.reason for row in bad] == [
        "it is not JSON: something follows the object, or its end is missing",
        "the field `id` is not a bigint: x",
    ]
    assert [bytes(row._origin.value) for row in bad] == [b"{oops", b'{"id": "x"}']

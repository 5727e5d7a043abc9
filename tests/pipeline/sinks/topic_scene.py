"""A pipeline that writes to topics, for tests that hand it batches one by one."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.pipeline.assembly import OpenSink
from penstock.pipeline.checkpoint import open_checkpoint
from penstock.pipeline.context import Context
from penstock.pipeline.problem import Place
from penstock.pipeline.sinks.topic import open_sink
from penstock.pipeline.spec.model import OnError, Pipeline
from penstock.pipeline.spec.sinks import TopicSink
from penstock.pipeline.spec.sources import TopicSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READ_SECONDS_MAX = 30.0


class Scene:
    """One pipeline with one topic sink, `out`, and a look at what it wrote."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.folder = folder
        self.name = f"p-{uuid.uuid4().hex[:8]}"
        self.topic = f"{self.name}.out"

    def context(self, *, on_error: OnError | None = None, bootstrap: str = "") -> Context:
        pipeline = Pipeline(
            name=self.name,
            sources={"numbers": TopicSource(topic="numbers")},
            sinks={"out": TopicSink(topic=self.topic)},
            bootstrap=bootstrap or self.bootstrap,
            on_error=on_error or OnError(),
            place=Place(str(self.folder / "pipeline.yml")),
        )
        return Context(self.spark, pipeline, open_checkpoint(pipeline))

    def sink(self, **keys: Any) -> OpenSink:
        """The sink as a process that has just started sees it."""
        return open_sink(self.context(), "out", TopicSink(**{"topic": self.topic, **keys}))

    def create(self, partitions: int, topic: str = "", config: Mapping[str, str] = {}) -> None:
        create(self.bootstrap, topic or self.topic, partitions, config)

    def numbers(self, start: int, end: int) -> DataFrame:
        """Rows whose `id` counts, and of which each seventh has the same `name`."""
        return self.spark.range(start, end, numPartitions=3).selectExpr(
            "id", "concat('n', id % 7) AS name"
        )

    def records(self, topic: str = "", committed: bool = True) -> list[Message]:
        return read_all(self.bootstrap, topic or self.topic, committed)

    def values(self, topic: str = "") -> list[str]:
        return [each.value().decode() for each in self.records(topic)]


def create(
    bootstrap: str, topic: str, partitions: int, config: Mapping[str, str] | None = None
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = NewTopic(topic, partitions, config=dict(config or {}))
    admin.create_topics([wanted])[topic].result(30)


def read_all(bootstrap: str, topic: str, committed: bool = True) -> list[Message]:
    """Every record of a topic, partition by partition."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "look",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "log_level": 0,
        }
    )
    told = reader.list_topics(topic, READ_SECONDS_MAX).topics[topic]
    reader.assign([TopicPartition(topic, partition, 0) for partition in told.partitions])
    found, ended = list[Message](), set[int]()
    while len(ended) < len(told.partitions):
        for each in _some(reader):
            if each.error() is None:
                found.append(each)
            else:
                ended.add(each.partition())
    reader.close()
    return sorted(found, key=lambda each: (each.partition(), each.offset()))


def _some(reader: Consumer) -> Iterable[Message]:
    found: list[Message] = reader.consume(10_000, READ_SECONDS_MAX / 10)
    assert found, "the topic's end did not come"
    return found

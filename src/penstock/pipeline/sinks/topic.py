"""Topics as sinks: exactly once by default, at least once through Spark's own sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.pipeline.assembly import OpenSink
from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks.topic_records import (
    fixed_topic,
    largest_record,
    place_in,
    to_records,
)
from penstock.pipeline.sinks.transactional import TransactionalWriter
from penstock.pipeline.spec.sinks import TopicSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BULK = {"kafka.linger.ms": "50", "kafka.batch.size": str(256 << 10)}
"""Options of Spark's sink that serve writing in bulk; what the file says wins."""

AT_ONCE = {"kafka.linger.ms": "0"}
"""Options of Spark's sink in real time."""


def open_sink(context: Context, name: str, spec: TopicSink) -> OpenSink:
    """The sink that a file describes."""
    writer = TransactionalWriter(
        context, name, fixed_topic(spec), place_in(context, spec), spec.partitions, spec.options
    )
    if spec.delivery == "exactly-once":
        return ExactlyOnce(context, spec, writer)
    return AtLeastOnce(context, spec, writer)


def stream_writer(context: Context, spec: TopicSink, rows: DataFrame) -> DataStreamWriter:
    """A stream that Spark's own sink writes, record by record: for the real-time trigger."""
    made = _for_spark(context, spec, rows).writeStream.format("kafka")
    return made.options(**_options(context, spec, AT_ONCE))


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """Batches in transactions."""

    context: Context
    spec: TopicSink
    writer: TransactionalWriter

    def prepare(self, rows: DataFrame) -> None:
        """Check the columns, and create the topic if it is not there."""
        to_records(self.context, self.spec, rows)
        self.writer.prepare()

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write what of the batch is not in the topic yet."""
        self.writer.write(
            to_records(self.context, self.spec, batch),
            batch_id,
            lambda: largest_record(self.context, self.spec, batch),
        )


@dataclass(frozen=True, slots=True)
class AtLeastOnce:
    """Batches through Spark's own sink: one that is played again is written again."""

    context: Context
    spec: TopicSink
    writer: TransactionalWriter

    def prepare(self, rows: DataFrame) -> None:
        """Check the columns, and create the topic if it is not there."""
        _for_spark(self.context, self.spec, rows)
        if self.writer.topic:
            self.writer.prepare()

    def write(self, batch: DataFrame, batch_id: int) -> None:  # noqa: ARG002 - batches are alike
        """Write the batch."""
        made = _for_spark(self.context, self.spec, batch).write.format("kafka")
        made.options(**_options(self.context, self.spec, BULK)).save()


def _for_spark(context: Context, spec: TopicSink, rows: DataFrame) -> DataFrame:
    if spec.timestamp:
        raise Problem(
            "Spark's own sink cannot set a record's time",
            "Leave `timestamp` out, or use delivery: exactly-once with trigger.every.",
            place_in(context, spec),
        )
    return to_records(context, spec, rows)


def _options(context: Context, spec: TopicSink, chosen: dict[str, str]) -> dict[str, str]:
    own = {f"kafka.{name}": value for name, value in spec.options.items()}
    topic = {"topic": spec.topic} if fixed_topic(spec) else {}
    return {**chosen, **context.kafka_options(), **own, **topic}

"""Topics as a source, through Spark's own connector."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sources.intake import origin, take_in
from penstock.pipeline.sources.lost_records import explain as explain
from penstock.pipeline.spec.sources import TopicSource
from penstock.pipeline.views import ORIGIN, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHOSEN = {
    # The connector asks for the log's ends at every poll: fewer, larger polls read up to 1.5 times
    # as fast.
    "kafka.max.poll.records": "20000",
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
}
"""Options that serve reading in bulk; what the file says wins."""

BATCH_WAIT = {"kafka.fetch.max.wait.ms": "10"}
"""A batch ends at offsets that are known. Kafka's consumer asks for more by then, its broker waits
for half a second whether more comes, and what else the task asks on that connection waits as well:
at the end of every partition of every batch."""


def open_source(context: Context, name: str, spec: TopicSource) -> View:
    """The records of topics: the payload's columns, and what describes the record."""
    from pyspark.sql import functions as f

    from penstock.pipeline.formats.decode import decode

    raw = read_topics(context, spec)
    raw = raw.withColumn(
        ORIGIN,
        origin(
            name,
            topic=f.col("topic"),
            partition=f.col("partition"),
            offset=f.col("offset"),
            key=f.col("key"),
            value=f.col("value"),
            headers=f.col("headers"),
        ),
    )
    decoded = {
        "": decode(context, f.col("value"), spec.value, _subject(spec, "value")),
        "_key": decode(context, f.col("key"), spec.key, _subject(spec, "key")),
    }
    kept = {
        "_headers": f.col("headers"),
        "_timestamp": f.col("timestamp"),
        "_topic": f.col("topic"),
        "_partition": f.col("partition"),
        "_offset": f.col("offset"),
    }
    return take_in(context, name, raw, decoded, kept, spec)


def _subject(spec: TopicSource, part: str) -> str:
    """What registries call the schema of a topic's values or keys; several topics have several."""
    topic = spec.topic.strip()
    return f"{topic}-{part}" if topic and "," not in topic else ""


def read_topics(context: Context, spec: TopicSource) -> DataFrame:
    """The stream of raw records, as the connector gives them."""
    return context.spark.readStream.format("kafka").options(**topic_options(context, spec)).load()


def topic_options(context: Context, spec: TopicSource) -> dict[str, str]:
    """What the connector is told."""
    chosen = {
        **CHOSEN,
        **({} if context.pipeline.trigger.real_time else BATCH_WAIT),
        **context.kafka_options(),
        "kafka.isolation.level": spec.isolation,
        "includeHeaders": "true",
        "failOnDataLoss": "true" if spec.data_loss == "fail" else "false",
        **_which(spec),
        **_start(spec),
    }
    if spec.batch_records_max:
        chosen["maxOffsetsPerTrigger"] = str(spec.batch_records_max)
    return {**chosen, **spec.options}


def _which(spec: TopicSource) -> dict[str, str]:
    if spec.pattern:
        return {"subscribePattern": spec.pattern}
    return {"subscribe": ",".join(each.strip() for each in spec.topic.split(","))}


def _start(spec: TopicSource) -> dict[str, str]:
    start = spec.start.strip()
    if start in ("earliest", "latest"):
        return {"startingOffsets": start}
    if start.startswith("{"):
        try:
            json.loads(start)
        except ValueError as fault:
            raise Problem(
                f"the offsets in `from` are not JSON: {fault}",
                'Write them as {"orders": {"0": 42, "1": -2}}; -2 is earliest, -1 is latest.',
                spec.place,
            ) from fault
        return {"startingOffsets": start}
    try:
        time = datetime.fromisoformat(start)
    except ValueError as fault:
        raise Problem(
            f"`from` is {spec.start!r}, which is no place in a topic",
            "It is earliest, latest, a time such as 2026-11-01T00:00:00Z, or JSON of offsets.",
            spec.place,
        ) from fault
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return {
        "startingTimestamp": str(round(time.timestamp() * 1000)),
        # Partitions without a record that new begin with the next one that comes.
        "startingOffsetsByTimestampStrategy": "latest",
    }

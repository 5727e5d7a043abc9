"""Dead letters: records that could not be read, kept with their bytes and the reason.

A dead letter is the record as it was, key, value and headers, with headers that say what was wrong
with it and where it came from. It is written exactly once, like any record of a topic sink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.pipeline.assembly import DEAD_LETTERS
from penstock.pipeline.context import Context
from penstock.pipeline.sinks.topic_records import HEADERS_TYPE
from penstock.pipeline.sinks.transactional import TransactionalWriter
from penstock.pipeline.spec.model import Pipeline
from penstock.pipeline.views import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PREFIX = "penstock-dlq-"
"""What the headers of a dead letter begin with."""

REASON = f"{PREFIX}reason"
TOPIC = f"{PREFIX}topic"

FROM_ORIGIN = ("source", "topic", "partition", "offset", "file", "line")
"""What is told of where a record came from, as far as it has one."""


def dead_letter_topic(pipeline: Pipeline) -> str:
    """The topic that a pipeline's dead letters go to."""
    return pipeline.on_error.topic or f"{pipeline.name}.dlq"


def open_dead_letters(context: Context) -> DeadLetters:
    """The sink of a pipeline's dead letters."""
    pipeline = context.pipeline
    writer = TransactionalWriter(context, DEAD_LETTERS, dead_letter_topic(pipeline), pipeline.place)
    return DeadLetters(context, writer)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """A sink of frames of errors."""

    context: Context
    writer: TransactionalWriter

    def prepare(self, rows: DataFrame) -> None:  # noqa: ARG002 - their columns are always the same
        """Create the topic if it is not there."""
        self.writer.prepare()

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write what of the batch is not in the topic yet."""
        letters = to_letters(self.context.pipeline.name, batch)
        self.writer.write(letters, batch_id, lambda: largest_letter(batch))


def largest_letter(rows: DataFrame) -> str:
    """The size and the origin of the largest of these."""
    from pyspark.sql import functions as f

    size = f.coalesce(f.length(f"{ORIGIN}.value"), f.lit(0))
    place = [f.col(f"{ORIGIN}.{name}") for name in FROM_ORIGIN]
    row = rows.select(size.alias("size"), *place).orderBy(f.desc("size")).first()
    if row is None:
        return "it was not found again"
    told = ", ".join(f"{name} {row[name]}" for name in FROM_ORIGIN if row[name] is not None)
    return f"it has {row['size']:,} bytes, from {told}"


def to_letters(pipeline: str, rows: DataFrame) -> DataFrame:
    """Records with the bytes that they had, and headers that tell about them."""
    from pyspark.sql import functions as f

    told: dict[str, Column] = {
        "reason": f.col("reason"),
        "pipeline": f.lit(pipeline),
        **{name: f.col(f"{ORIGIN}.{name}").cast("string") for name in FROM_ORIGIN},
        "time": f.date_format(f.current_timestamp(), "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"),
    }
    made = f.array(
        *(
            f.struct(f.lit(PREFIX + name).alias("key"), text.cast("binary").alias("value"))
            for name, text in told.items()
        )
    ).cast(HEADERS_TYPE)
    kept = f.coalesce(f.col(f"{ORIGIN}.headers"), f.array().cast(HEADERS_TYPE))
    return rows.select(
        f.col(f"{ORIGIN}.key").alias("key"),
        f.col(f"{ORIGIN}.value").alias("value"),
        f.concat(
            # What an earlier death has said of it no longer holds.
            f.filter(kept, lambda each: ~each["key"].startswith(PREFIX)),
            f.filter(made, lambda each: each["value"].isNotNull()),
        ).alias("headers"),
    )

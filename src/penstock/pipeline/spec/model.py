"""A pipeline as its file describes it: plain values, checked, without Spark.

Every key of the file is a field here, with its meaning beside it; the reader, the JSON Schema and
the reference page are all made from these classes. A part that comes in several kinds (a source, a
step, a sink) is told by the key that only its kind has: the first field of each class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from penstock.pipeline.problem import Place
from penstock.pipeline.spec.entries import ANYTHING, Shape, entry
from penstock.pipeline.spec.formats import STRING, Format
from penstock.pipeline.spec.sinks import Sink
from penstock.pipeline.spec.sources import Source
from penstock.pipeline.spec.steps import Step

__all__ = ["STRING", "Format", "OnError", "Pipeline", "Sink", "Source", "Step", "Trigger"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When a batch is begun: exactly one of these."""

    ONE_OF: ClassVar[tuple[str, ...]] = ("every", "available_now", "real_time")

    every: str = entry(
        "Begin a batch at this interval.",
        default="",
        example="10 seconds",
        shape=Shape.DURATION,
        alone=ANYTHING,
    )
    available_now: bool = entry(
        "Take all that is there now, in several batches, and end.",
        default=False,
        alone="available-now",
    )
    real_time: str = entry(
        "Pass records on as they come, with a checkpoint at this interval: milliseconds instead of "
        "seconds, at least once, topics to topics, no Python.",
        default="",
        example="5 minutes",
        shape=Shape.DURATION,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OnError:
    """What becomes of a record that cannot be read."""

    policy: str = entry(
        "What to do with it: write it to the dead-letter topic, leave it out and count it, stop, "
        "or try the batch again before stopping.",
        default="fail",
        choices=("dlq", "drop", "fail", "retry"),
        alone=ANYTHING,
    )
    topic: str = entry(
        "The dead-letter topic; `NAME.dlq` of the pipeline if not given.",
        default="",
        shape=Shape.TOPIC,
    )
    attempts: int = entry("How often `retry` tries a batch again.", default=5, least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipeline: what is read, what happens to it, and where it goes."""

    name: str = entry(
        "What the pipeline is called: in its group, its checkpoint, its metrics. Letters, digits, "
        "dots, dashes and underscores.",
        example="orders",
        shape=Shape.NAME,
    )
    sources: Mapping[str, Source] = entry(
        "What is read, by the name that steps use.", names=Shape.VIEW
    )
    sinks: Mapping[str, Sink] = entry("What is written, by name.", names=Shape.NAME)
    steps: tuple[Step, ...] = entry("What happens in between, in order.", default=())
    bootstrap: str = entry(
        "The brokers that topics are on.", default="localhost:9092", shape=Shape.BROKERS
    )
    kafka: Mapping[str, str] = entry(
        "Settings of the Kafka clients (security, for the most part), by Kafka's names.",
        default={},
        secret=True,
    )
    trigger: Trigger = entry("When a batch is begun.", default=Trigger())
    checkpoint: str = entry(
        "Where progress and state are kept: a folder here, or any place that Spark can reach.",
        default="",
        example="checkpoints/orders",
    )
    on_error: OnError = entry("What becomes of records that cannot be read.", default=OnError())
    spark: Mapping[str, str] = entry(
        "Settings of Spark, by Spark's names.", default={}, secret=True
    )
    place: Place
    """Where the file is: paths in it begin at its folder."""

    @property
    def group(self) -> str:
        """The group under which Kafka's tools see this pipeline's progress."""
        return f"penstock.pipeline.{self.name}"

"""What every part of a running pipeline is given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.spec.model import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Context:
    """One pipeline, about to run or running, in one Spark session."""

    spark: SparkSession
    pipeline: Pipeline
    checkpoint: Checkpoint

    def path(self, given: str) -> str:
        """A path of the pipeline file: relative ones begin at the file's folder."""
        if "://" in given or os.path.isabs(given):
            return given
        return os.path.join(os.path.dirname(os.path.abspath(self.pipeline.place.file)), given)

    def writer(self, sink: str) -> str:
        """Who writes to a sink: the same for as long as the checkpoint lives, and never again.

        Sinks remember the last batch of each writer. A checkpoint that was reset counts its
        batches from 0 again, and must not be taken for the one before it.
        """
        return f"{self.pipeline.name}.{sink}.{self.checkpoint.id}"

    def kafka_options(self) -> Mapping[str, str]:
        """Options of Spark's connector that say which cluster to talk to, and as whom."""
        own = {f"kafka.{name}": value for name, value in self.pipeline.kafka.items()}
        return {"kafka.bootstrap.servers": self.pipeline.bootstrap, **own}

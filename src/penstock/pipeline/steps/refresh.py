"""Tables in memory, read again while the pipeline runs.

The plan of a streaming query is made once, and a table in it is read again for each batch, as far
as its files were known then. Not seeing new files is wrong, and reading a whole topic for each
batch is slow: with 200,000 keys batches took four times as long. So the table is cached, which
keeps its plan and lets batches find its rows in memory; every `refresh` the cache is emptied and
the list of files renewed, and the next batch fills it again. Between batches nothing is read.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.shapes import duration_ms
from penstock.pipeline.spec.steps import JoinStep
from penstock.pipeline.steps.refusal import told_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


def kept(context: Context, step: JoinStep, rows: DataFrame, renew: Callable[[], None]) -> DataFrame:
    """`rows`, in memory from one refresh to the next; `renew` prepares their being read again."""
    seconds = duration_ms(step.refresh) / 1000
    if not seconds:
        raise Problem("refresh is no time at all", "A second is the least that helps.", step.place)
    rows.persist()
    refresh = Refresh(context.spark, step.join, rows, renew)
    threading.Thread(
        target=refresh.again_and_again, args=(seconds,), name=f"refresh {step.join}", daemon=True
    ).start()
    return rows


@dataclass(frozen=True, slots=True)
class Refresh:
    """Makes Spark forget a table's rows, for as long as the session is open."""

    spark: SparkSession
    name: str
    rows: DataFrame
    renew: Callable[[], None]
    ended: threading.Event = field(default_factory=threading.Event)

    def again_and_again(self, seconds: float) -> None:
        """Once in so many seconds, until `ended`."""
        while self._open() and not self.ended.wait(seconds):
            try:
                self.once()
            except (PySparkException, Py4JError, OSError) as failed:
                if self._open():
                    log.warning("the table %s is used as it was: %s", self.name, told_by(failed))

    def once(self) -> None:
        """Now: the next batch will read the table again."""
        if self._open():
            self.renew()
            self.rows.unpersist()
            self.rows.persist()

    def _open(self) -> bool:
        session = self.spark.sparkContext._jsc
        try:
            return session is not None and not session.sc().isStopped()
        except (Py4JError, OSError):
            return False  # the JVM itself is gone

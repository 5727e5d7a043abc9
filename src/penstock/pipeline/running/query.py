"""One streaming query at work: started, watched, and stopped between two batches."""

from __future__ import annotations

import importlib
import threading
import time
from typing import TYPE_CHECKING, Any

from penstock.pipeline.assembly import DEAD_LETTERS, SINKS, Query
from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.running.shape import shape_of
from penstock.pipeline.running.status import ERRORS
from penstock.pipeline.sinks.lake_folders import RECORD_TIME
from penstock.pipeline.spec.sinks import ParquetSink, PythonSink, TopicSink
from penstock.pipeline.views import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

LOOK_SECONDS = 0.05
"""How often to look whether a batch has ended, while waiting for it."""


class Halted(Exception):
    """A batch was about to begin when the pipeline was asked to stop: it is left for the next run.

    Spark has written down what belongs to the batch, and will begin with the very same one.
    """


class RunningQuery:
    """A query, and the work that Spark does for it."""

    def __init__(self, context: Context, query: Query) -> None:
        self.name = query.name
        self.fault: Exception | None = None
        """What went wrong on our side of a batch, as it was raised."""
        self._context = context
        self._query = query
        self._closing = threading.Event()
        self._writing = False
        self._streaming: Any = None

    def start(self, *, once: bool) -> None:
        """Start it, or start it again after it has ended."""
        self.fault = None
        name = f"{self._context.pipeline.name}.{self.name}"
        writer = self._writer(once).queryName(name)
        self._streaming = writer.option(
            "checkpointLocation", self._context.checkpoint.folder(self.name)
        ).start()

    @property
    def started(self) -> bool:
        """Whether it was started at all."""
        return self._streaming is not None

    @property
    def active(self) -> bool:
        """Whether Spark still works on it."""
        return bool(self._streaming.isActive)

    @property
    def streaming(self) -> Any:
        """Spark's own handle of it."""
        return self._streaming

    def exception(self) -> Exception | None:
        """Why it ended, if it did not end well."""
        failed: Exception | None = self._streaming.exception()
        if failed is None or isinstance(self.fault, Halted):
            return None
        return self.fault or failed

    def close(self) -> None:
        """Begin no further batch."""
        self._closing.set()

    def stop(self, deadline: float) -> None:
        """End it: after the batch in hand if that ends before `deadline`, else in the middle."""
        self.close()
        while self.active and self._busy() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        self._streaming.stop()

    def _busy(self) -> bool:
        if self._context.pipeline.trigger.real_time:
            return False  # its batches last for minutes, and none of them has an end worth a wait
        # Between the end of a write and its record in the checkpoint the trigger is still active.
        return self._writing or bool(self._streaming.status["isTriggerActive"])

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        try:
            if self._closing.is_set():
                raise Halted
            self._writing = True
            self._query.write(batch, batch_id)
        except Exception as fault:
            # Spark would hand back a text with a Java stack in it.
            self.fault = fault
            raise
        finally:
            self._writing = False

    def _writer(self, once: bool) -> DataStreamWriter:
        trigger = self._context.pipeline.trigger
        if trigger.real_time and not once:
            return self._real_time_writer(trigger.real_time)
        writer = self._rows().writeStream.outputMode(self._query.view.mode)
        writer = writer.foreachBatch(self._write)
        if once or trigger.available_now:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=trigger.every or "0 seconds")

    def _rows(self) -> DataFrame:
        rows = self._query.view.rows
        if self.name == DEAD_LETTERS:
            from pyspark.sql import functions as f

            # What this query reads is every record; what it writes are the bad ones.
            return rows.observe(ERRORS, f.count(f.lit(1)).alias("bad"))
        if shape_of(rows).operators:
            return rows  # state that was kept with all columns must be found again
        # A batch is all its columns, wanted or not: Spark makes every one of them.
        return rows.drop(*self._needless(rows.columns))

    def _needless(self, columns: list[str]) -> list[str]:
        """Columns that describe the record, and that no sink can ask for."""
        specs = [self._context.pipeline.sinks[name] for name in self._query.sinks]
        if any(isinstance(each, PythonSink) for each in specs):
            return []
        # Others use those that say where a record stood without being told to, and a lake its time.
        lakes = all(isinstance(each, ParquetSink) for each in specs)
        known = [each for each in columns if each.startswith("_") and each != RECORD_TIME]
        told = str(specs).lower()  # SQL does not care
        return [each for each in (known if lakes else [ORIGIN]) if each.lower() not in told]

    def _real_time_writer(self, interval: str) -> DataStreamWriter:
        """Spark's own sink: in this mode there are no batches that we could write."""
        specs = [self._context.pipeline.sinks.get(name) for name in self._query.sinks]
        if len(specs) != 1 or not isinstance(specs[0], TopicSink):
            raise Problem(
                f"the view {self.name!r} cannot be written in real time",
                "With trigger.real_time each view goes to exactly one sink, a topic: use "
                "trigger.every instead.",
                self._context.pipeline.place,
            )
        module = importlib.import_module(SINKS[TopicSink])
        writer: Any = module.stream_writer(self._context, specs[0], self._query.view.rows)
        jvm: Any = self._context.spark.sparkContext._jvm
        # PySpark 4.1 has no word for this trigger yet; the JVM below it has.
        writer._jwrite = writer._jwrite.trigger(
            jvm.org.apache.spark.sql.streaming.Trigger.RealTime(interval)
        )
        return writer.outputMode("update")  # type: ignore[no-any-return]

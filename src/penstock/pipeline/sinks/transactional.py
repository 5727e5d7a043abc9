"""Writing batches of records to topics exactly once, through Spark: the driver's part.

A batch is cut into slots by the records' keys. Each slot is a Spark task, which writes its records
and a marker with the batch's number in one transaction (`transactional_slot`). A batch that is
played again, after whatever was killed, finds the markers of the slots that were written.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.running.clients import client_settings
from penstock.pipeline.sinks.slots import SlotBook, Slots
from penstock.pipeline.sinks.topic_faults import SlotInterrupted, error_of, lasting, reason_of
from penstock.pipeline.sinks.topic_places import create_topic, topics_there
from penstock.pipeline.sinks.transactional_markers import Marker, Markers, group_of
from penstock.pipeline.sinks.transactional_slot import REPORT_TYPE, Order, lost_markers, reports

if TYPE_CHECKING:
    from pyarrow import RecordBatch  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, Row

PRODUCER = {
    # Where Kafka's Java clients would put a key, it is put here, too.
    "partitioner": "murmur2_random",
    # Records without a key go to one partition for so long. In bulk all are filled alike, and read
    # in the same time by whoever comes next; a few records stay together, in one batch of one
    # partition, which is then the only one that the transaction has to mark.
    "sticky.partitioning.linger.ms": 1,
    "linger.ms": 50,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 300_000,
    "queue.buffering.max.kbytes": 128 * 1024,
    # The task may take this long for its slot. Nobody waits for it if the task dies: the next
    # attempt ends the transaction at once.
    "transaction.timeout.ms": 300_000,
    "log_level": 0,
}
"""Settings that serve writing in bulk; what the file says wins."""

PAUSES_SECONDS = (1.0, 3.0, 10.0)
"""How long to wait before each further attempt at a batch that was interrupted."""

MARKER_SECONDS_MAX = 3600.0
"""Markers that were seen this long ago may have expired: they are looked at again."""


@dataclass(slots=True)
class TransactionalWriter:
    """Writes batches of one sink.

    Records have the columns `key` and `value`, and any of `topic`, `timestamp` (in milliseconds)
    and `headers`.
    """

    context: Context
    sink: str
    topic: str
    """Where all records go; empty if the column `topic` says where."""
    place: Place
    """Where the sink stands in its file."""
    partitions: int = 0
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    _seen: float | None = None
    _cores: int = 0

    @property
    def group(self) -> str:
        """The group that holds the markers, and what the transactional ids begin with."""
        return group_of(self.context.pipeline.name, self.sink)

    @property
    def home(self) -> str:
        """The topic whose partitions name the slots' markers: the sink's, if it has only one."""
        return self.topic or self.group.replace(":", ".")

    def prepare(self) -> None:
        """See that the topic is there, or create it."""
        try:
            self._partitions_of(self.home, create=True)
        except KafkaException as refusal:
            raise self._problem(refusal) from None

    def write(self, records: DataFrame, batch: int, largest: Callable[[], str]) -> None:
        """Write a batch, or what is missing of it.

        `largest` tells of the batch's largest record, should one be too large.
        """
        try:
            slots = self._begin(batch)
        except KafkaException as refusal:
            raise self._problem(refusal) from None
        self._finish(self._attempt(records, self._order(slots, batch)), slots, largest)
        self._seen = time.monotonic()

    # -- before a batch

    def _begin(self, batch: int) -> Slots:
        """The slots, once it is sure that they will tell what of this batch was written."""
        book = SlotBook(self.context.checkpoint, self.sink)
        kept = book.read() or self._recall(batch)
        if kept is not None and batch <= kept.begun:
            self._look(kept, batch, fresh=False)
            return kept
        if kept is not None and self._settled():
            slots = kept
        else:
            slots = self._choose()
            self._look(slots, batch, fresh=True)
        # Before any row is written: a batch that was begun, and has no markers, is a doubt.
        book.keep(slots.begin(batch))
        return slots

    def _recall(self, batch: int) -> Slots | None:
        """What the markers know, if the file was lost: it is as if this batch had been begun."""
        partitions = self._partitions_of(self.home, create=True)
        with self._markers(self.home) as markers:
            mine = markers.read(range(partitions), self.context.writer(self.sink)).values()
        newest = max(mine, key=lambda each: each.end, default=None)
        return Slots(newest.slots, self.home, batch) if newest else None

    def _settled(self) -> bool:
        """Whether markers and slots are as they were when they were looked at."""
        recent = self._seen is not None and time.monotonic() - self._seen < MARKER_SECONDS_MAX
        return recent and self._cores == self._cores_now()

    def _choose(self) -> Slots:
        """As many slots as Spark has cores, and at most one for each partition."""
        partitions = self._partitions_of(self.home, create=True)
        self._cores = self._cores_now()
        return Slots(max(1, min(self._cores, partitions)), self.home)

    def _cores_now(self) -> int:
        return self.context.spark.sparkContext.defaultParallelism

    def _look(self, slots: Slots, batch: int, fresh: bool) -> None:
        """See that each slot has a marker.

        A batch that is begun for the first time gives one to slots that have none: nothing of it
        was written, whatever became of the markers of those before it.
        """
        if not fresh and self._partitions_of(slots.home, create=False) < slots.count:
            raise Problem(*lost_markers(self.group, slots.home, batch), self.place)
        writer = self.context.writer(self.sink)
        with self._markers(slots.home) as markers:
            found = markers.read(range(slots.count), writer)
            last = max((each.end for each in found.values()), default=0)
            if last > (batch if fresh else batch + 1):
                raise self._set_back(batch, last - 1)
            missing = [slot for slot in range(slots.count) if slot not in found]
            if missing and not fresh:
                raise Problem(*lost_markers(self.group, slots.home, batch), self.place)
            if missing:
                markers.seed(missing, Marker(writer, slots.count, batch))

    def _markers(self, home: str) -> _Closing:
        return _Closing(Markers(client_settings(self.context.pipeline), self.group, home))

    def _partitions_of(self, topic: str, create: bool) -> int:
        clients = client_settings(self.context.pipeline)
        found = topics_there(clients, [topic]).get(topic, 0)
        if found or not create:
            return found
        # A topic that only lends its partitions to markers needs as many as there are cores.
        wanted = self.partitions if self.topic else self._cores_now()
        return create_topic(clients, topic, wanted)

    def _order(self, slots: Slots, batch: int) -> Order:
        return Order(
            clients=client_settings(self.context.pipeline),
            producer={**PRODUCER, **self.options},
            group=self.group,
            home=slots.home,
            writer=self.context.writer(self.sink),
            slots=slots.count,
            batch=batch,
            topic=self.topic,
            partitions=self.partitions,
        )

    # -- the batch

    def _attempt(self, records: DataFrame, order: Order) -> list[Row]:
        """Have all slots written; what is interrupted is tried again, as it is safe to."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        pauses = list(PAUSES_SECONDS)
        while True:
            try:
                return self._run(records, order)
            except (PySparkException, Py4JError) as fault:
                interrupted = re.search(rf"{SlotInterrupted.__name__}: (.*)", str(fault))
                if interrupted is None:
                    raise
                if not pauses:
                    raise self._given_up(order.batch, interrupted[1]) from None
            time.sleep(pauses.pop(0))

    def _run(self, records: DataFrame, order: Order) -> list[Row]:
        from pyspark.sql import functions as f

        def write(batches: Iterable[RecordBatch]) -> Iterable[RecordBatch]:
            return reports(order, batches)

        slotted = records.repartition(order.slots, f.coalesce(f.col("key"), f.col("value")))
        return slotted.mapInArrow(write, REPORT_TYPE).collect()

    def _finish(self, told: list[Row], slots: Slots, largest: Callable[[], str]) -> None:
        for each in told:
            if each.problem is not None:
                where = f": {largest()}" if each.large else ""
                raise Problem(each.problem + where, each.advice or "", self.place)
        if sorted(each.slot for each in told) != list(range(slots.count)):
            raise AssertionError(f"Spark has merged the slots of a batch: {told}")

    # -- problems

    def _problem(self, refusal: KafkaException) -> Problem:
        error = error_of(refusal)
        fault = lasting(error, self.topic or self.home, self.group)
        if fault is not None:
            return Problem(*fault, self.place)
        return Problem(
            f"the sink {self.sink!r} cannot be written: {reason_of(error)}",
            f"Does the cluster at {self.context.pipeline.bootstrap} work?",
            self.place,
        )

    def _given_up(self, batch: int, reason: str) -> Problem:
        return Problem(
            f"batch {batch} could not be written to the sink {self.sink!r}: {reason.strip()}",
            f"Does the cluster at {self.context.pipeline.bootstrap} work? What is missing of the "
            "batch is written by the next run; with on_error: retry that comes by itself.",
            self.place,
        )

    def _set_back(self, batch: int, last: int) -> Problem:
        return Problem(
            f"the sink {self.sink!r} has written batch {last}, and the checkpoint wants to go on "
            f"with batch {batch}: it was set back",
            "What it would write now is partly there already. Restore the newer checkpoint, or "
            "begin anew with `penstock pipeline reset`.",
            self.place,
        )


class _Closing:
    """Markers that are closed at the end of a `with` block."""

    def __init__(self, markers: Markers) -> None:
        self._opened = markers

    def __enter__(self) -> Markers:
        return self._opened

    def __exit__(self, *_: object) -> None:
        self._opened.close()

"""One slot of one batch, written in one transaction: the part that runs in Spark's executors.

The producer's transactional id is the slot's. Whoever takes it over ends the transaction of the one
before and shuts it out, so that of several attempts at a slot, dead or only slow, one at most gets
through. Only then is the slot's marker read: what it says cannot change any more behind our back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.pipeline.sinks.topic_faults import (
    SIZE_CODES,
    Fault,
    SlotInterrupted,
    error_of,
    lasting,
    reason_of,
)
from penstock.pipeline.sinks.topic_places import create_topic, topics_there
from penstock.pipeline.sinks.transactional_markers import Marker, Markers, place_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch  # type: ignore[import-untyped]

Answer = TypeVar("Answer")

CONNECT_SECONDS_MAX = 60.0
COMMIT_SECONDS_MAX = 120.0
ABORT_SECONDS_MAX = 10.0
STUCK_SECONDS = 15.0
"""How long beyond its own time-out a call of librdkafka may last before it is given up."""

NO_TOPIC = Fault(
    "a row does not say which topic it goes to: the column is null",
    "Leave such rows out with a filter, or give them a topic with coalesce.",
)

REPORT_TYPE = "slot int, rows long, written boolean, problem string, advice string, large boolean"


@dataclass(frozen=True, slots=True)
class Order:
    """Everything that a slot needs to know of its sink and its batch."""

    clients: Mapping[str, Any] = field(repr=False)
    """Which cluster, and as whom."""
    producer: Mapping[str, Any] = field(repr=False)
    group: str
    home: str
    writer: str
    slots: int
    batch: int
    topic: str
    """Where all rows go; empty if each says so itself, in its column `topic`."""
    partitions: int
    """For topics that have to be created, where rows name them; 0 is the cluster's default."""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a slot."""

    slot: int
    rows: int = 0
    written: bool = False
    """False if an attempt before had written it already, or if there is a problem."""
    problem: str | None = None
    advice: str | None = None
    large: bool = False
    """Whether the problem is a record's size."""


def write_slot(order: Order, slot: int, batches: Iterable[RecordBatch]) -> Report:
    """Write the rows of a slot, unless that was done before.

    What only a person can mend is reported; Spark would try it again and again. What may pass is
    raised as SlotInterrupted, and Spark tries again.
    """
    transaction = _Transaction(order, slot)
    try:
        if transaction.already_written():
            rows = sum(batch.num_rows for batch in batches)
            return Report(slot, rows)
        return Report(slot, transaction.write(batches), written=True)
    except KafkaException as refusal:
        transaction.abort()
        error = transaction.cause(error_of(refusal))
        fault = lasting(error, transaction.topic, order.group)
        if fault is None:
            raise SlotInterrupted(f"slot {slot} of {order.group}: {reason_of(error)}") from None
        return Report(slot, 0, False, fault.what, fault.advice, error.code() in SIZE_CODES)
    except Lasting as told:
        transaction.abort()
        return Report(slot, 0, False, *told.fault)
    except BaseException:
        transaction.abort()
        raise
    finally:
        transaction.close()


class Lasting(Exception):
    """Something that only a person can mend."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.what)


def lost_markers(group: str, home: str, batch: int) -> Fault:
    """How to tell that nobody can know any more what of a batch is in the topic."""
    return Fault(
        f"batch {batch} was begun before, and the offsets of the group {group!r} that say how much "
        f"of it is in {home!r} are gone",
        "They are kept for offsets.retention.minutes, and go with the topic. Look what the topic "
        "holds; then begin anew with `penstock pipeline reset`, or remove the sink's file from the "
        "folder `sinks` of the checkpoint to have the whole batch written.",
    )


class _Transaction:
    def __init__(self, order: Order, slot: int) -> None:
        self._order = order
        self._slot = slot
        self._errors: list[KafkaError] = []
        self._stuck = False
        self._found: set[str | None] = set()
        self.topic = order.topic or order.home
        """The topic that is being written to."""
        self._producer = Producer(
            {
                **order.clients,
                **order.producer,
                "transactional.id": f"{order.group}:{slot}",
                "error_cb": self._errors.append,
                # A record that is not delivered fails the transaction, which tells why. To be
                # called for each one that is would cost a tenth of the whole.
                "delivery.report.only.error": True,
            }
        )
        self._markers = Markers(order.clients, order.group, order.home)

    def already_written(self) -> bool:
        """Take the slot over, and see whether an earlier attempt has written the batch."""
        order = self._order
        # The first answer comes from the address that we were given, whose connection librdkafka
        # then drops for one to the broker by its name. To look for the coordinator in between
        # would cost half a second; the second question waits for that connection.
        for _ in range(2):
            self._producer.list_topics(order.home, timeout=CONNECT_SECONDS_MAX)
        self._call(self._producer.init_transactions, CONNECT_SECONDS_MAX)
        marker = self._markers.read([self._slot], order.writer).get(self._slot)
        if marker is None:
            raise Lasting(lost_markers(order.group, order.home, order.batch))
        return marker.end > order.batch

    def write(self, batches: Iterable[RecordBatch]) -> int:
        """Write all rows and the marker, and commit both. How many rows it were."""
        self._producer.begin_transaction()
        count = 0
        for batch in batches:
            try:
                self._send(batch)
            except KafkaException as refusal:
                if error_of(refusal).code() == KafkaError._STATE:
                    self._mark()  # what failed the transaction is told by whoever asks next
                raise
            self._producer.poll(0)
            count += batch.num_rows
        self._mark()
        self._call(self._producer.commit_transaction, COMMIT_SECONDS_MAX)
        return count

    def _mark(self) -> None:
        """Make the marker part of the transaction."""
        order = self._order
        marker = Marker(order.writer, order.slots, order.batch + 1)
        place = place_of(order.home, self._slot, marker)
        membership = self._markers.membership
        self._call(
            lambda seconds: self._producer.send_offsets_to_transaction(
                [place], membership, seconds
            ),
            COMMIT_SECONDS_MAX,
        )

    def _send(self, batch: RecordBatch) -> None:
        names = batch.schema.names
        columns = {name: batch.column(name).to_pylist() for name in names}
        topics = columns.get("topic") or repeat(self._order.topic)
        if "topic" in columns:
            self._find(set(columns["topic"]))
        produce = self._producer.produce
        if "headers" not in columns and "timestamp" not in columns:
            for topic, key, value in zip(topics, columns["key"], columns["value"], strict=False):
                try:
                    produce(topic, value, key)
                except BufferError:
                    self._make_room(topic, value=value, key=key)
            return
        times = columns.get("timestamp") or repeat(None)
        headers = columns.get("headers") or repeat(None)
        for topic, key, value, time_ms, named in zip(
            topics, columns["key"], columns["value"], times, headers, strict=False
        ):
            fields = {"value": value, "key": key}
            if time_ms is not None:
                fields["timestamp"] = time_ms
            if named:
                fields["headers"] = [(each["key"], each["value"]) for each in named]
            try:
                produce(topic, **fields)
            except BufferError:
                self._make_room(topic, **fields)

    def _find(self, topics: set[str | None]) -> None:
        """Create topics that rows name and that are not there."""
        if None in topics:
            raise Lasting(NO_TOPIC)
        for topic in sorted(each for each in topics - self._found if each is not None):
            self.topic = topic
            if topic not in topics_there(self._order.clients, [topic]):
                create_topic(self._order.clients, topic, self._order.partitions)
            self._found.add(topic)

    def _make_room(self, topic: str, **fields: Any) -> None:
        """The queue is full: wait for deliveries, then queue the record."""
        deadline = time.monotonic() + COMMIT_SECONDS_MAX
        while True:
            self._producer.poll(0.1)
            try:
                self._producer.produce(topic, **fields)
                return
            except BufferError:
                if time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None

    def cause(self, error: KafkaError) -> KafkaError:
        """The error that tells most: nobody answers whom the cluster does not recognise."""
        if error.code() == KafkaError._TIMED_OUT:
            for each in self._errors:
                if each.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
                    return each
        return error

    def abort(self) -> None:
        """Give up what was written, so that readers need not wait for the transaction to time out.

        Failing at that is no harm: the next attempt does it first of all.
        """
        if self._stuck:
            return
        try:
            self._call(self._producer.abort_transaction, ABORT_SECONDS_MAX)
        except (KafkaException, SlotInterrupted):
            return

    def close(self) -> None:
        """Let go of the cluster."""
        if self._stuck:
            return
        # Not by its own `close`, which would try to abort once more and tell what went wrong.
        del self._producer
        self._markers.close()

    def _call(self, call: Callable[[float], Answer], seconds: float) -> Answer:
        """Call librdkafka with a time-out, and go on even if it does not keep to that.

        A broker that dies in the middle of `send_offsets_to_transaction` can leave it waiting for
        good. Its client is then left to itself: to destroy it would wait as well.
        """
        answers: list[Answer] = []
        faults: list[BaseException] = []

        def work() -> None:
            try:
                answers.append(call(seconds))
            except BaseException as fault:  # noqa: BLE001 - raised again by who waits for it
                faults.append(fault)

        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        worker.join(seconds + STUCK_SECONDS)
        if worker.is_alive():
            self._stuck = True
            raise SlotInterrupted(
                f"slot {self._slot} of {self._order.group}: the client did not answer in time"
            )
        if faults:
            raise faults[0]
        return answers[0]


def reports(order: Order, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """What a Spark task does: write its slot, and tell of it in one row."""
    import pyarrow
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None, "slots are written by Spark's tasks"
    report = write_slot(order, task.partitionId(), batches)
    yield pyarrow.RecordBatch.from_pydict(
        {
            "slot": pyarrow.array([report.slot], pyarrow.int32()),
            "rows": pyarrow.array([report.rows], pyarrow.int64()),
            "written": pyarrow.array([report.written], pyarrow.bool_()),
            "problem": pyarrow.array([report.problem], pyarrow.string()),
            "advice": pyarrow.array([report.advice], pyarrow.string()),
            "large": pyarrow.array([report.large], pyarrow.bool_()),
        }
    )

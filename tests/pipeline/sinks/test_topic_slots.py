"""Slots of a topic sink: written once, whoever tries, and refused where nobody can know."""

from __future__ import annotations

import json
import logging
import pickle
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import PySparkException

from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks import transactional
from penstock.pipeline.sinks.slots import SlotBook, Slots
from penstock.pipeline.sinks.topic_faults import SlotInterrupted
from penstock.pipeline.sinks.transactional import PRODUCER, TransactionalWriter
from penstock.pipeline.sinks.transactional_markers import (
    Marker,
    Markers,
    _patiently,
    group_of,
)
from penstock.pipeline.sinks.transactional_slot import Order, Report, write_slot
from penstock.testing import Broker
from tests.pipeline.sinks.topic_scene import Scene, create, read_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

HERE, BEFORE = "p.out.here", "p.out.before"


@pytest.fixture
def scene(spark: SparkSession, pipeline_broker: Broker, tmp_path: Path) -> Scene:
    return Scene(spark, pipeline_broker.bootstrap_servers, tmp_path)


class Bench:
    """Slots without Spark: a topic, its markers, and orders to write."""

    def __init__(self, bootstrap: str) -> None:
        name = f"p-{uuid.uuid4().hex[:8]}"
        self.topic = f"{name}.out"
        self.clients = {"bootstrap.servers": bootstrap}
        self.group = group_of(name, "out")
        create(bootstrap, self.topic, 2)

    def values(self) -> list[str]:
        found = read_all(self.clients["bootstrap.servers"], self.topic)
        return sorted(each.value().decode() for each in found)

    def order(self, batch: int, writer: str = HERE) -> Order:
        return Order(
            self.clients, PRODUCER, self.group, self.topic, writer, 2, batch, self.topic, 0
        )

    def markers(self, use: Callable[[Markers], object]) -> object:
        opened = Markers(self.clients, self.group, self.topic)
        try:
            return use(opened)
        finally:
            opened.close()

    def seed(self, batch: int, writer: str = HERE) -> None:
        self.markers(lambda markers: markers.seed([0, 1], Marker(writer, 2, batch)))


def rows(*values: str) -> list[pyarrow.RecordBatch]:
    encoded = [each.encode() for each in values]
    return [
        pyarrow.RecordBatch.from_pydict(
            {
                "key": pyarrow.array(encoded, pyarrow.binary()),
                "value": pyarrow.array(encoded, pyarrow.binary()),
            }
        )
    ]


@pytest.fixture
def bench(pipeline_broker: Broker) -> Bench:
    return Bench(pipeline_broker.bootstrap_servers)


def test_a_slot_is_written_once_and_its_marker_tells(bench: Bench) -> None:
    bench.seed(7)
    assert write_slot(bench.order(7), 0, rows("a", "b")) == Report(0, 2, written=True)
    assert write_slot(bench.order(7), 0, rows("a", "b")) == Report(0, 2, written=False)
    assert write_slot(bench.order(7), 1, rows("c")).written
    assert bench.values() == ["a", "b", "c"]
    assert bench.markers(lambda markers: markers.read([0, 1], HERE)) == {
        0: Marker(HERE, 2, 8),
        1: Marker(HERE, 2, 8),
    }


def test_an_empty_slot_leaves_a_marker_as_well(bench: Bench) -> None:
    bench.seed(0)
    assert write_slot(bench.order(0), 1, []).written
    assert write_slot(bench.order(0), 1, []) == Report(1, 0, written=False)


def test_an_attempt_that_was_overtaken_gets_nothing_through(bench: Bench) -> None:
    bench.seed(0)

    def slow():  # type: ignore[no-untyped-def]
        yield rows("a")[0]
        assert write_slot(bench.order(0), 0, rows("a", "b")).written
        yield rows("b")[0]

    with pytest.raises(SlotInterrupted):
        write_slot(bench.order(0), 0, slow())
    assert bench.values() == ["a", "b"]


def test_what_another_writer_has_marked_counts_for_nothing(bench: Bench) -> None:
    bench.seed(9, BEFORE)
    report = write_slot(bench.order(0), 0, rows("a"))
    assert report.problem is not None
    assert "are gone" in report.problem
    bench.seed(0)
    assert write_slot(bench.order(0), 0, rows("a")).written


def test_a_checkpoint_that_begins_anew_writes_its_first_batch_again(scene: Scene) -> None:
    scene.create(2)
    scene.sink().write(scene.numbers(0, 10), 0)
    (scene.folder / ".penstock" / scene.name / "penstock.json").unlink()
    (scene.folder / ".penstock" / scene.name / "sinks" / "out.json").unlink()
    scene.sink().write(scene.numbers(0, 10), 0)
    assert len(scene.values()) == 20


def test_the_number_of_slots_stays_within_a_batch_and_grows_with_the_topic_after_it(
    scene: Scene,
) -> None:
    scene.create(1)
    scene.sink().write(scene.numbers(0, 10), 0)
    admin = AdminClient({"bootstrap.servers": scene.bootstrap})
    admin.create_partitions([NewPartitions(scene.topic, 4)])[scene.topic].result(30)
    scene.sink().write(scene.numbers(0, 10), 0)
    scene.sink().write(scene.numbers(10, 20), 1)
    assert SlotBook(scene.context().checkpoint, "out").read() == Slots(2, scene.topic, 1)
    assert len(scene.values()) == 20


def test_a_lost_file_is_made_up_for_by_the_markers(scene: Scene) -> None:
    scene.create(2)
    scene.sink().write(scene.numbers(0, 10), 0)
    Path(SlotBook(scene.context().checkpoint, "out").path).unlink()
    scene.sink().write(scene.numbers(0, 10), 0)
    assert len(scene.values()) == 10


def test_markers_that_expired_between_batches_do_no_harm(scene: Scene) -> None:
    scene.create(2)
    scene.sink().write(scene.numbers(0, 10), 0)
    forget_markers(scene)
    sink = scene.sink()
    sink.write(scene.numbers(10, 20), 1)
    sink.write(scene.numbers(10, 20), 1)
    assert len(scene.values()) == 20


def test_markers_that_are_gone_in_the_middle_of_a_batch_are_a_doubt(scene: Scene) -> None:
    scene.create(2)
    scene.sink().write(scene.numbers(0, 10), 0)
    forget_markers(scene)
    with pytest.raises(Problem, match=r"batch 0 was begun before.*are gone") as told:
        scene.sink().write(scene.numbers(0, 10), 0)
    assert "penstock pipeline reset" in told.value.advice
    assert len(scene.values()) == 10


def test_a_checkpoint_that_was_set_back_is_refused(scene: Scene) -> None:
    scene.create(2)
    sink = scene.sink()
    for batch in range(3):
        sink.write(scene.numbers(0, 1), batch)
    book = SlotBook(scene.context().checkpoint, "out")
    book.keep(Slots(2, scene.topic, 0))
    with pytest.raises(Problem, match=r"has written batch 2.*it was set back"):
        scene.sink().write(scene.numbers(0, 1), 1)


def test_a_file_that_cannot_be_read_is_told(scene: Scene) -> None:
    book = SlotBook(scene.context().checkpoint, "out")
    Path(book.path).parent.mkdir(parents=True)
    Path(book.path).write_text(json.dumps({"count": 2}))
    with pytest.raises(Problem, match="cannot be read"):
        book.read()


def test_a_batch_that_is_interrupted_is_tried_again_and_then_given_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.create(1)
    monkeypatch.setattr(transactional, "PAUSES_SECONDS", (0.0, 0.0))
    run, tries = TransactionalWriter._run, []

    def interrupted(self: TransactionalWriter, records: DataFrame, order: Order) -> list[Row]:
        tries.append(order.batch)
        if order.batch or len(tries) < 3:
            raise PySparkException("in a task: SlotInterrupted: slot 0: no broker\n  at ...")
        return run(self, records, order)

    monkeypatch.setattr(TransactionalWriter, "_run", interrupted)
    sink = scene.sink()
    sink.write(scene.numbers(0, 3), 0)
    assert len(scene.values()) == 3
    with pytest.raises(Problem, match=r"batch 1 could not be written .*: slot 0: no broker\n"):
        sink.write(scene.numbers(3, 6), 1)
    assert tries == [0, 0, 0, 1, 1, 1]


def test_a_group_without_a_coordinator_is_waited_for_and_other_refusals_are_told() -> None:
    answers = [KafkaError.NOT_COORDINATOR, KafkaError._WAIT_COORD, None, KafkaError._AUTHENTICATION]

    def call() -> str:
        if (code := answers.pop(0)) is not None:
            raise KafkaException(KafkaError(code))
        return "done"

    assert _patiently(call) == "done"
    with pytest.raises(KafkaException):
        _patiently(call)
    assert answers == []


def test_an_order_travels_to_executors_and_shows_no_secret() -> None:
    clients = {"sasl.password": "hush", "logger": logging.getLogger("penstock.pipeline.x")}
    order = Order(clients, PRODUCER, "g", "t", HERE, 2, 0, "t", 0)
    assert pickle.loads(pickle.dumps(order)) == order
    assert "hush" not in repr(order)


def forget_markers(scene: Scene) -> None:
    admin = AdminClient({"bootstrap.servers": scene.bootstrap})
    group = group_of(scene.name, "out")
    admin.delete_consumer_groups([group])[group].result(30)

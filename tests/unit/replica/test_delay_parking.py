"""Taking delayed records out of producers' batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.errors import ErrorCode
from penstock.records.batch import seal
from penstock.records.compression import CODEC_NAMES, ZSTD
from penstock.replica.outcomes import Appended, Refused
from penstock.storage.delay_batches import PARKED, kind_of, read_notice
from penstock.storage.log_config import LogConfig
from penstock.storage.store import LogStore
from tests.unit.replica.delay_scene import NOW, Scene, batch


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    made = LogStore([str(tmp_path)], node_id=1, cluster_id="cluster")
    made.open()
    yield made
    made.close()


@pytest.fixture
def scene(store: LogStore) -> Scene:
    return Scene(store)


def test_delayed_records_wait_and_the_others_are_there_at_once(scene: Scene) -> None:
    answer = scene.send((b"now", None), (b"later", 50), (b"now too", None), (b"last", 20))
    assert answer == Appended(1, 5, -1, 0)
    assert scene.readable() == [(1, b"now"), (3, b"now too")]
    assert [(row.due - NOW, row.id) for row in scene.waiting] == [(20, 4), (50, 2)]
    assert [b"last" in (one.body or b"") for one in scene.read(scene.waiting)] == [True, False]


def test_a_batch_of_nothing_else_stays_as_an_empty_one_with_its_place(scene: Scene) -> None:
    assert scene.send((b"a", 5), (b"b", 5), producer_id=7, producer_epoch=1, base_sequence=3) == (
        Appended(1, 3, -1, 0)
    )
    ((head, records),) = scene.batches()
    assert records == []
    assert (head.count, head.last_offset, head.producer_id, head.last_sequence) == (0, 2, 7, 4)


def test_a_producer_that_sends_again_is_told_the_same_and_nothing_is_parked_twice(
    scene: Scene,
) -> None:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    first = scene.send((b"a", 5), (b"b", None), **producer)
    assert isinstance(first, Appended)
    again = scene.send((b"a", 5), (b"b", None), **producer)
    assert isinstance(again, Appended)
    assert (again.base_offset, again.end_offset) == (first.base_offset, first.end_offset)
    assert len(scene.waiting) == 1


def test_batches_without_delayed_records_are_taken_as_they_are(scene: Scene) -> None:
    data = batch((b"a", None), (b"b", None))
    assert scene.partition.append(memoryview(bytearray(data)), NOW) == Appended(0, 2, -1, 0)
    assert bytes(next(scene.log.batches(0))[1])[17:] == data[17:]
    assert scene.log.delays is None


def test_a_time_that_has_come_stays_in_the_producers_batch(scene: Scene) -> None:
    assert scene.send((b"a", 0), (b"b", None)) == Appended(0, 2, -1, 0)
    assert scene.log.delays is None


def test_topics_without_the_setting_take_no_notice(store: LogStore) -> None:
    scene = Scene(store, delay_enable=False)
    assert scene.send((b"a", 50)) == Appended(0, 1, -1, 0)
    assert scene.readable() == [(0, b"a")]
    scene.partition.reconfigure(LogConfig(delay_enable=True))
    scene.send((b"b", 50))
    assert len(scene.waiting) == 1


@pytest.mark.parametrize("codec", range(5), ids=CODEC_NAMES)
def test_compressed_batches_stay_compressed_and_parked_records_are_not(
    scene: Scene, codec: int
) -> None:
    scene.send((b"now" * 50, None), (b"later" * 50, 9), compression=codec)
    ((head, _),) = scene.batches()
    assert head.compression == codec
    assert scene.readable() == [(1, b"now" * 50)]
    (parked,) = scene.read(scene.waiting)
    assert parked.body is not None
    assert b"later" * 50 in parked.body


def test_the_brokers_time_is_kept_where_the_topic_uses_it(store: LogStore) -> None:
    scene = Scene(store, timestamp_append=True)
    scene.now = NOW + 77
    answer = scene.send((b"a", None), (b"b", 5))
    assert isinstance(answer, Appended)
    assert answer.append_time == NOW + 77
    ((head, records),) = scene.batches()
    assert head.is_append_time
    assert records[0].timestamp == NOW + 77
    empty = scene.send((b"c", 5))
    assert isinstance(empty, Appended)
    assert scene.batches()[-1][0].is_append_time


@pytest.mark.parametrize("delay", [b"-1", b"soon", b"", str(60_001).encode()])
def test_one_bad_header_refuses_the_batch_and_is_named(store: LogStore, delay: bytes) -> None:
    scene = Scene(store, delay_max_ms=60_000)
    answer = scene.send((b"a", 5), (b"b", delay), (b"c", None))
    assert isinstance(answer, Refused)
    assert answer.error == ErrorCode.INVALID_RECORD
    assert [index for index, _ in answer.record_errors] == [1]
    assert answer.message is not None
    assert answer.message.startswith("record 1 of 3: penstock-delay-ms")
    assert scene.log.end == 0


def test_no_more_records_wait_than_the_topic_allows(store: LogStore) -> None:
    scene = Scene(store, delay_max_records=3)
    assert isinstance(scene.send((b"a", 5), (b"b", 5)), Appended)
    refused = scene.send((b"c", 5), (b"now", None), (b"d", 5))
    assert isinstance(refused, Refused)
    assert [index for index, _ in refused.record_errors] == [2]
    assert "3 is the most" in refused.record_errors[0][1]
    assert isinstance(scene.send((b"e", 5)), Appended)
    assert isinstance(scene.send((b"now", None)), Appended)


def test_what_does_not_fit_into_one_batch_is_parked_in_several(store: LogStore) -> None:
    scene = Scene(store, message_max_bytes=1_200)
    records = [(b"%d" % number * 100, 10 + number) for number in range(9)]
    answer = scene.send(*records, compression=ZSTD)
    assert isinstance(answer, Appended)
    fronts = [data for head, data in scene.log.batches(0) if head.is_control]
    assert [kind_of(data) for data in fronts] == [PARKED] * len(fronts)
    assert len(fronts) > 1
    assert all(len(data) <= 1_200 for data in fronts)
    assert {read_notice(data).target for data in fronts} == {answer.base_offset}
    assert len(scene.waiting) == 9
    for number, parked in enumerate(scene.read(scene.waiting)):
        assert b"%d" % number * 100 in (parked.body or b"")


def test_a_batch_that_cannot_be_decompressed_is_refused(scene: Scene) -> None:
    data = bytearray(batch((b"a", 5), compression=4))
    data[61:] = bytes(len(data) - 61)
    seal(data, 0, len(data))
    answer = scene.partition.append(memoryview(data), NOW)
    assert isinstance(answer, Refused)
    assert answer.error == ErrorCode.INVALID_RECORD

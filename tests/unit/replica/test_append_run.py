"""Batches that come together become what they would have become one by one, with one write."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from penstock.model.errors import ErrorCode
from penstock.model.ids import NodeId
from penstock.platform import disk as disk_module
from penstock.replica.append_run import append_run
from penstock.replica.partition import Appended, Partition, Refused
from penstock.replica.transactions import NOT_TRANSACTIONAL
from penstock.storage.log_config import LogConfig
from penstock.storage.store import LogStore
from tests.unit.server.asking import NOON, batch

NODE = NodeId(1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    made = LogStore([str(tmp_path)], node_id=1, cluster_id="cluster")
    made.open()
    yield made
    made.close()


def leading(store: LogStore, topic: str, **config: Any) -> Partition:
    log = store.create(topic, 0, topic.encode().ljust(16), LogConfig(**config))
    partition = Partition(NODE, log, 0, mock.Mock())
    partition.lead(3, (NODE,), (NODE,))
    return partition


def views(batches: list[bytearray]) -> list[memoryview]:
    return [memoryview(bytearray(each)) for each in batches]


def contents(partition: Partition) -> list[bytes]:
    return [bytes(data) for _, data in partition.log.batches(0)]


def known(partition: Partition) -> dict[int, tuple[int, int, list[Any]]]:
    producers = partition.log.producers.by_id
    return {id_: (each.epoch, each.next_sequence, each.batches) for id_, each in producers.items()}


class Mixture:
    """Batches of two producers and of none: some out of order, again, broken or too large."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._next = {1: 0, 2: 0}

    def batches(self) -> list[bytearray]:
        return [self._batch() for _ in range(self._chance.choice((1, 2, 5, 16)))]

    def go_on_after(self, partition: Partition) -> None:
        """A producer that was refused takes up where the log is."""
        for id_, producer in partition.log.producers.by_id.items():
            self._next[id_] = producer.next_sequence

    def _batch(self) -> bytearray:
        chance = self._chance
        count = chance.choice((1, 2, 9))
        options: dict[str, Any] = {}
        producer = chance.choice((0, 1, 2))
        if producer:
            sequence = self._next[producer]
            if chance.random() < 0.08:
                sequence = max(0, sequence + chance.choice((-2, -1, 1)))
            options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            self._next[producer] = sequence + count
        made = bytearray(batch(count, **options))
        if chance.random() < 0.04:
            made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
        return made


@pytest.mark.parametrize("config", [
    {}, {"segment_bytes": 2000}, {"message_max_bytes": 200}, {"timestamp_append": True},
    {"cleanup_compact": True}, {"segment_index_bytes": 64, "index_interval_bytes": 100},
])  # fmt: skip
@pytest.mark.parametrize("seed", range(8))
def test_all_becomes_what_it_would_have_become_one_by_one(
    store: LogStore, config: dict[str, Any], seed: int
) -> None:
    together, alone = (leading(store, name, **config) for name in ("together", "alone"))
    mixture = Mixture(seed)
    for _ in range(30):
        batches = mixture.batches()
        became = append_run(together, views(batches), NOON)
        expected = [alone.append(each, NOON, NOT_TRANSACTIONAL) for each in views(batches)]
        assert became == expected
        mixture.go_on_after(alone)
    assert contents(together) == contents(alone) and len(contents(alone)) > 30
    assert known(together) == known(alone)
    assert together.high_watermark == alone.high_watermark == together.log.end
    assert [each.size for each in together.log.segments] == [
        each.size for each in alone.log.segments
    ]
    for offset in range(together.log.end):
        assert together.log.read_bytes(offset, 1) == alone.log.read_bytes(offset, 1)


def test_what_raises_no_question_is_one_write(store: LogStore) -> None:
    partition = leading(store, "t")
    partition.append(memoryview(bytearray(batch())), NOON)  # a new segment's first batch goes alone
    batches = [batch(2, producer_id=7, producer_epoch=0, base_sequence=2 * n) for n in range(5)]
    with mock.patch.object(disk_module, "_pwritev", wraps=os.pwritev) as write:
        became = append_run(partition, views([bytearray(each) for each in batches]), NOON)
    assert write.call_count == 1
    assert became == [Appended(1 + 2 * n, 3 + 2 * n, -1, 0) for n in range(5)]
    assert partition.log.producers.by_id[7].next_sequence == 10


def test_a_disk_that_takes_not_all_of_it_refuses_all_and_keeps_none(store: LogStore) -> None:
    partition = leading(store, "t")
    partition.append(memoryview(bytearray(batch())), NOON)
    before, size = contents(partition), partition.log.size
    batches = [
        bytearray(batch(1, producer_id=7, producer_epoch=0, base_sequence=n)) for n in range(3)
    ]

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    def part(fd: int, parts: list[memoryview], position: int) -> int:
        return os.pwrite(fd, parts[0], position)

    for writes in ({"_pwritev": full}, {"_pwritev": part, "_pwrite": full}):
        with mock.patch.multiple(disk_module, **writes):
            became = append_run(partition, views(batches), NOON)
        assert all(
            isinstance(each, Refused) and each.error == ErrorCode.KAFKA_STORAGE_ERROR
            for each in became
        )
        assert contents(partition) == before and partition.log.size == size
        assert os.stat(partition.log.active.path(".log")).st_size == size
        assert 7 not in partition.log.producers.by_id
    assert append_run(partition, views(batches), NOON) == [
        Appended(n + 1, n + 2, -1, 0) for n in range(3)
    ]


def test_a_disk_that_takes_it_in_pieces_has_all_of_it_in_the_end(store: LogStore) -> None:
    partition = leading(store, "t")
    partition.append(memoryview(bytearray(batch())), NOON)

    def little(fd: int, parts: list[memoryview], position: int) -> int:
        return os.pwrite(fd, parts[0][:5], position)

    with mock.patch.object(disk_module, "_pwritev", little):
        became = append_run(partition, views([bytearray(batch(2)) for _ in range(3)]), NOON)
    assert became == [Appended(1 + 2 * n, 3 + 2 * n, -1, 0) for n in range(3)]
    assert len(contents(partition)) == 4


def test_sequences_that_begin_anew_and_producers_that_do_go_on_in_a_run(store: LogStore) -> None:
    partition = leading(store, "t")
    last = 2**31 - 2
    append_run(partition, views([bytearray(batch())]), NOON)
    batches = [
        bytearray(batch(1, producer_id=7, producer_epoch=0, base_sequence=last)),
        bytearray(batch(3, producer_id=7, producer_epoch=0, base_sequence=last + 1)),
        bytearray(batch(1, producer_id=7, producer_epoch=0, base_sequence=2)),
        bytearray(batch(1, producer_id=7, producer_epoch=1, base_sequence=0)),
    ]
    with mock.patch.object(disk_module, "_pwritev", wraps=os.pwritev) as write:
        became = append_run(partition, views(batches[:3]), NOON)
    assert write.call_count == 1
    assert [each.base_offset for each in became if isinstance(each, Appended)] == [1, 2, 5]
    assert append_run(partition, views(batches[3:]), NOON) == [Appended(6, 7, -1, 0)]


def test_with_flush_messages_all_of_a_run_wait_for_the_disk(store: LogStore) -> None:
    partition = leading(store, "t", flush_messages=1)
    append_run(partition, views([bytearray(batch())]), NOON)
    append_run(partition, views([bytearray(batch()) for _ in range(3)]), NOON)
    assert partition.log.end == 4
    assert partition.high_watermark == partition.synced == 0


def test_a_partition_that_is_offline_takes_none_of_it(store: LogStore) -> None:
    partition = leading(store, "t")
    partition.go_offline()
    became = append_run(partition, views([bytearray(batch()) for _ in range(3)]), NOON)
    assert became == [Refused(ErrorCode.KAFKA_STORAGE_ERROR)] * 3
    assert partition.log.end == 0


def test_who_waits_for_bytes_is_told_of_all_of_them(store: LogStore) -> None:
    partition = leading(store, "t")
    partition.append(memoryview(bytearray(batch())), NOON)
    told: list[int] = []
    partition.audience.readers[mock.Mock(progress=told.append)] = None
    batches = [bytearray(batch(2)) for _ in range(3)]
    append_run(partition, views(batches), NOON)
    assert told == [sum(map(len, batches))]

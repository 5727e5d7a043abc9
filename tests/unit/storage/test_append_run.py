"""Batches that come together are stored as if they had come one by one."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.platform.disk import Disk, File
from penstock.records.batch import patch_base, read_head
from penstock.records.builder import end_txn_batch
from penstock.storage.log import CorruptBatch, Log
from penstock.storage.log_config import LogConfig
from tests.unit.storage.logs import NOW, batch, contents, open_log


def placed(data: bytearray | bytes, offset: int, epoch: int = 0) -> bytes:
    """A batch with its offset and epoch, as a leader's log holds it."""
    data = bytearray(data)
    patch_base(data, 0, offset, epoch)
    return bytes(data)


def state(log: Log) -> object:
    """Everything that later reads, restarts and producers depend on."""
    return (
        log.start,
        log.end,
        log.epochs.entries,
        contents(log),
        [
            (
                segment.base,
                segment.size,
                segment.unindexed,
                segment.max_timestamp,
                segment.max_timestamp_offset,
                list(segment.index.offsets),
                list(segment.index.positions),
                list(segment.index.times),
                list(segment.index.time_offsets),
            )
            for segment in log.segments
        ],
        {
            number: (producer.epoch, list(producer.batches), producer.txn_first_offset)
            for number, producer in log.producers.by_id.items()
        },
        log.producers.first_unstable_offset,
        [log.read_bytes(offset, 10**6) for offset in range(log.start, log.end)],
    )


def leaders_batches(sizes: list[tuple[int, int, int, int]]) -> list[bytes]:
    """Batches of (records, gap before, producer, step of the epoch)."""
    made, offset, epoch = [], 0, 0
    sequences: dict[int, int] = {}
    for number, (count, gap, producer, step) in enumerate(sizes):
        offset += gap
        epoch += step
        if producer < 0:
            data = batch(count, timestamp=NOW + number)
        elif count == 1:
            data = bytearray(
                end_txn_batch(
                    is_commit=True,
                    producer_id=producer,
                    producer_epoch=0,
                    coordinator_epoch=0,
                    timestamp=NOW,
                )
            )
        else:
            sequence = sequences.get(producer, 0)
            sequences[producer] = sequence + count
            data = batch(
                count,
                timestamp=NOW + number,
                producer_id=producer,
                producer_epoch=0,
                sequence=sequence,
                transactional=producer > 1,
            )
        made.append(placed(data, offset, epoch))
        offset += read_head(made[-1]).last_offset_delta + 1
    return made


@settings(max_examples=60)
@given(
    sizes=st.lists(
        st.tuples(
            st.integers(1, 6), st.integers(0, 2), st.integers(-1, 2), st.sampled_from([0, 0, 0, 1])
        ),
        min_size=1,
        max_size=25,
    ),
    segment_bytes=st.sampled_from([300, 1000, 1 << 30]),
)
def test_a_run_is_stored_as_its_batches_would_be(
    sizes: list[tuple[int, int, int, int]], segment_bytes: int
) -> None:
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=150)
    batches = leaders_batches(sizes)
    with tempfile.TemporaryDirectory() as folder:
        together = open_log(f"{folder}/together", config)
        apart = open_log(f"{folder}/apart", config)
        together.append_batches(b"".join(batches), NOW)
        for each in batches:
            head = read_head(each)
            apart.append(each, head, head.base_offset, head.leader_epoch, NOW)
        assert state(together) == state(apart)
        together.abandon()
        apart.abandon()


def test_what_is_cut_off_or_of_a_later_epoch_than_the_leaders_is_left_out(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first, second = placed(batch(3), 0, 4), placed(batch(3), 3, 5)
    assert log.append_batches(first + second, NOW, epoch_max=4) == 3
    assert log.append_batches(second[:-1], NOW, epoch_max=5) == 3
    assert log.append_batches(second, NOW, epoch_max=5) == 6
    assert log.epochs.entries == [(4, 0), (5, 3)]


@pytest.mark.parametrize("spoiled", [0, 1, 2])
def test_batches_before_a_bad_one_stay(tmp_path: Path, spoiled: int) -> None:
    log = open_log(tmp_path)
    batches = [bytearray(placed(batch(2), 2 * number)) for number in range(3)]
    batches[spoiled][-1] ^= 1
    with pytest.raises(CorruptBatch):
        log.append_batches(b"".join(batches), NOW)
    assert log.end == 2 * spoiled


def test_a_run_that_the_disk_does_not_take_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, disk=Disk())
    log.append_batches(placed(batch(2), 0), NOW)
    before = state(log)

    def refuse(file: File, data: object) -> int:
        raise OSError(errno.ENOSPC, "no room")

    run = placed(batch(2), 2) + placed(batch(2), 4)
    with monkeypatch.context() as patched:
        patched.setattr(File, "append", refuse)
        with pytest.raises(OSError):
            log.append_batches(run, NOW)
    assert state(log) == before
    assert log.append_batches(run, NOW) == 6

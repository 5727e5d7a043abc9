"""Finding aborted transactions, and not looking for them where there are none."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from penstock.platform.disk import Disk
from penstock.records.builder import end_txn_batch
from penstock.storage.aborted import aborted_in
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.segment import Segment
from tests.unit.storage.logs import NOW, batch, fill, open_log, put

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def abort(log: Log, producer_id: int) -> None:
    put(log, batch(2, producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True))
    fill(log, 30)  # the marker stands in a later segment than the data
    put(log, abort_marker(producer_id))


def abort_marker(producer_id: int) -> bytearray:
    marker = end_txn_batch(
        producer_id=producer_id,
        producer_epoch=0,
        is_commit=False,
        coordinator_epoch=1,
        timestamp=NOW,
    )
    return bytearray(marker)


def test_a_log_without_aborted_transactions_asks_the_disk_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 100)
    monkeypatch.setattr(
        type(log.context.disk), "exists", lambda *_: pytest.fail("looked for a file")
    )
    assert aborted_in(log, 0, log.end) == []


@pytest.mark.parametrize("reopened", [False, True])
def test_an_aborted_transaction_is_found_from_anywhere_in_it(
    tmp_path: Path, reopened: bool
) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 10)
    first = log.end
    abort(log, 7)
    last = log.end - 1
    fill(log, 40)
    if reopened:
        log.close()
        log = open_log(tmp_path, SMALL)
    for start in (0, first, last):
        found = aborted_in(log, start, log.end)
        assert [(txn.producer_id, txn.first_offset) for txn in found] == [(7, first)]
    assert aborted_in(log, last + 1, log.end) == []
    assert aborted_in(log, 0, first) == []


def aborted(log: Log) -> list[tuple[int, int]]:
    return [(txn.producer_id, txn.first_offset) for txn in aborted_in(log, 0, log.end)]


def test_an_index_that_was_never_synced_is_made_anew(tmp_path: Path) -> None:
    """A segment is synced with all that it holds, sealed, and the power fails."""
    log = open_log(tmp_path, SMALL)
    abort(log, 7)
    durable = log.end
    log.roll(NOW)
    log.settle()
    (index,) = tmp_path.glob("*.txnindex")
    index.unlink()
    again = open_log(tmp_path, SMALL, clean=False, recovery_point=durable)
    assert aborted(again) == [(7, 0)]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("rot", [b"", b"\0" * 34, b"\0" * 20, b"\x7f" * 34])
def test_a_rotten_index_is_made_anew(tmp_path: Path, rot: bytes, clean: bool) -> None:
    log = open_log(tmp_path, SMALL)
    abort(log, 7)
    abort(log, 8)
    fill(log, 40)
    expected = aborted(log)
    end = log.end
    log.close()
    first = min(tmp_path.glob("*.txnindex"))
    first.write_bytes(first.read_bytes() + rot)
    again = open_log(tmp_path, SMALL, clean=clean, recovery_point=end)
    assert aborted(again) == expected
    assert again.end == end


def test_recovery_enters_no_aborted_transaction_twice(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    abort(log, 7)
    fill(log, 40)
    put(log, batch(1, producer_id=8, producer_epoch=0, sequence=0))
    end = log.end
    log.close()
    for snapshot in tmp_path.glob("*.snapshot"):
        snapshot.unlink()
    again = open_log(tmp_path, SMALL, clean=False, recovery_point=end)
    assert aborted(again) == [(7, 0)]


def test_a_transaction_whose_batch_holds_the_start_of_the_log_is_open_after_a_crash(
    tmp_path: Path,
) -> None:
    """Records were deleted up to the middle of a batch: the others may be aborted yet."""
    log = open_log(tmp_path)
    put(log, batch(5, producer_id=7, producer_epoch=0, sequence=0, transactional=True))
    log.settle()
    again = open_log(tmp_path, clean=False, start=3)
    assert list(again.producers.ongoing) == [0]
    put(again, abort_marker(7))
    assert aborted(again) == [(7, 0)]


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "no room")


@pytest.mark.parametrize(
    ("where", "what"), [(Segment, "append"), (Disk, "write_at")], ids=["the log", "the index"]
)
def test_a_marker_and_its_index_entry_are_there_both_or_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: type, what: str
) -> None:
    log = open_log(tmp_path)
    put(log, batch(2, producer_id=7, producer_epoch=0, sequence=0, transactional=True))
    with monkeypatch.context() as patched:
        patched.setattr(where, what, full)
        with pytest.raises(OSError, match="no room"):
            put(log, abort_marker(7))
    assert (log.end, log.producers.ongoing) == (2, {0: 7})
    assert aborted_in(log, 0, 2) == []
    put(log, abort_marker(7))
    assert [txn.last_offset for txn in aborted_in(log, 0, 3)] == [2]
    log.close()
    assert [txn.last_offset for txn in aborted_in(open_log(tmp_path), 0, 3)] == [2]


def test_an_index_entry_that_was_cut_short_is_written_over(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    put(log, batch(2, producer_id=7, producer_epoch=0, sequence=0, transactional=True))
    (tmp_path / "00000000000000000000.txnindex").write_bytes(b"torn")
    put(log, abort_marker(7))
    assert [txn.first_offset for txn in aborted_in(log, 0, 3)] == [0]

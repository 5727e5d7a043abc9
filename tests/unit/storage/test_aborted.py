"""Finding aborted transactions, and not looking for them where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.records.builder import end_txn_batch
from penstock.storage.aborted import aborted_in
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from tests.unit.storage.logs import NOW, batch, fill, open_log, put

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def abort(log: Log, producer_id: int) -> None:
    put(log, batch(2, producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True))
    fill(log, 30)  # the marker stands in a later segment than the data
    marker = end_txn_batch(
        producer_id=producer_id,
        producer_epoch=0,
        is_commit=False,
        coordinator_epoch=1,
        timestamp=NOW,
    )
    put(log, bytearray(marker))


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

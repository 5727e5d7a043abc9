"""Partitions that join transactions, and those that only look as if they had."""

from __future__ import annotations

import pytest

from penstock.coordination.txn.adding import TAKES_PART
from penstock.coordination.txn.states import TxnState
from penstock.model.errors import ErrorCode
from tests.unit.coordination.txn.desk import HERE, NOON, THERE, Desk


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    made.init()
    return made


def test_the_first_partition_begins_the_transaction(desk: Desk) -> None:
    desk.wait(5)
    assert desk.add(HERE) is ErrorCode.NONE
    assert (desk.state, desk.transaction.started) == (TxnState.ONGOING, NOON + 5)
    desk.wait(5)
    assert desk.add(THERE) is ErrorCode.NONE
    assert desk.transaction.partitions == {"t": {0, 1}}
    assert desk.transaction.started == NOON + 5


def test_a_partition_that_takes_part_is_not_written_down_again(desk: Desk) -> None:
    desk.add(HERE, THERE)
    written = len(desk.log)
    assert desk.add(HERE) is ErrorCode.NONE
    assert len(desk.log) == written


@pytest.mark.parametrize(
    ("who", "error"),
    [
        ({"producer_id": 5}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"epoch": 1}, ErrorCode.PRODUCER_FENCED),
        ({"epoch": -1}, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_others_add_nothing(desk: Desk, who: dict[str, int], error: ErrorCode) -> None:
    assert desk.add(HERE, **who) is error
    assert desk.verify(HERE, **who).error is error
    assert desk.state is TxnState.EMPTY


def test_an_unknown_id_adds_nothing() -> None:
    assert Desk().add(HERE) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert Desk().verify(HERE).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_while_a_transaction_ends_the_next_one_waits(desk: Desk) -> None:
    desk.add(HERE)
    desk.end()
    assert desk.add(HERE) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.verify(HERE).error is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.write_markers()
    assert desk.add(HERE) is ErrorCode.NONE


def test_verifying_tells_which_partitions_are_missing(desk: Desk) -> None:
    desk.add(HERE)
    written = len(desk.log)
    assert desk.verify(HERE) == TAKES_PART
    verdict = desk.verify(HERE, THERE)
    assert verdict.of(HERE) is ErrorCode.NONE
    assert verdict.of(THERE) is ErrorCode.TRANSACTION_ABORTABLE
    assert len(desk.log) == written


def test_a_partition_of_the_transaction_before_takes_no_part(desk: Desk) -> None:
    desk.add(HERE)
    desk.end()
    desk.write_markers()
    assert desk.verify(HERE).of(HERE) is ErrorCode.TRANSACTION_ABORTABLE


def test_the_record_says_in_which_version_the_transaction_is_conducted(desk: Desk) -> None:
    desk.add(HERE, version=0)
    assert desk.transaction.client_version == 0
    desk.add(THERE, version=2)
    assert desk.transaction.client_version == 2

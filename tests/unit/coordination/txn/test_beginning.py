"""InitProducerId: who gets which epoch, who is fenced, and who has to come again."""

from __future__ import annotations

import pytest

from penstock.coordination.txn import beginning
from penstock.coordination.txn.states import TxnState
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.init_producer_id import InitProducerIdResponse
from tests.unit.coordination.txn.desk import HERE, Desk, exhausted


def of(answer: InitProducerIdResponse) -> tuple[int, int]:
    assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
    return answer.producer_id, answer.producer_epoch


def test_a_new_id_gets_a_producer_id_and_epoch_0() -> None:
    desk = Desk()
    assert of(desk.init()) == (1000, 0)
    assert desk.state is TxnState.EMPTY


def test_the_same_id_gets_the_next_epoch() -> None:
    desk = Desk()
    assert [of(desk.init())[1] for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_out_of_bounds_are_refused(timeout_ms: int) -> None:
    answer = Desk().init(timeout_ms=timeout_ms)
    assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_an_open_transaction_is_aborted_and_the_producer_comes_again() -> None:
    desk = Desk()
    desk.init()
    desk.add(HERE)
    assert desk.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.state is TxnState.PREPARE_ABORT
    assert desk.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    desk.write_markers()
    assert of(desk.init()) == (1000, 2)  # epoch 1 fenced the old one, and is nobody's


def test_a_resumption_goes_on_in_the_next_epoch() -> None:
    desk = Desk()
    producer_id, epoch = of(desk.init())
    assert of(desk.init(producer_id=producer_id, epoch=epoch)) == (producer_id, epoch + 1)


def test_a_resumption_that_is_asked_for_twice_is_answered_twice() -> None:
    desk = Desk()
    desk.init()
    first = of(desk.init(producer_id=1000, epoch=0))
    assert of(desk.init(producer_id=1000, epoch=0)) == first == (1000, 1)


@pytest.mark.parametrize(("producer_id", "epoch"), [(1000, 0), (999, 2), (1000, 7)])
def test_a_resumption_by_somebody_else_is_fenced(producer_id: int, epoch: int) -> None:
    desk = Desk()
    for _ in range(3):
        desk.init()
    answer = desk.init(producer_id=producer_id, epoch=epoch)
    assert answer.error_code == ErrorCode.PRODUCER_FENCED
    assert desk.producer == (1000, 2)


def test_a_resumption_under_a_forgotten_id_begins_anew() -> None:
    assert of(Desk().init(producer_id=77, epoch=5)) == (1000, 0)


def test_when_the_epochs_are_used_up_there_is_a_new_producer_id() -> None:
    desk = Desk()
    desk.init()
    exhausted(desk)
    assert of(desk.init()) == (1001, 0)
    assert desk.transaction.previous_producer_id == 1000


def test_the_last_resumption_of_a_producer_id_may_be_asked_for_twice() -> None:
    desk = Desk()
    desk.init()
    exhausted(desk)
    assert of(desk.init(producer_id=1000, epoch=32766)) == (1001, 0)
    assert of(desk.init(producer_id=1000, epoch=32766)) == (1001, 0)


@pytest.mark.parametrize("known", [False, True])
def test_without_producer_ids_at_hand_the_producer_comes_again(known: bool) -> None:
    desk = Desk()
    if known:
        desk.init()
        exhausted(desk)
    desk.no_ids = True
    assert desk.init().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_refused_record_changes_nothing() -> None:
    desk = Desk()
    desk.init()
    desk.init(producer_id=1000, epoch=0)
    desk.full = True
    desk.ask(beginning.introduce, beginning.Introduction("orders", 1000, 1000, 1))
    desk.full = False
    assert (desk.transaction.epoch, desk.transaction.last_epoch) == (1, 0)
    assert of(desk.init(producer_id=1000, epoch=0)) == (1000, 1)


def test_a_shard_takes_a_bounded_number_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "IDS_MAX", 2)
    desk = Desk()
    errors = [desk.init(name).error_code for name in ("a", "b", "c", "a")]
    assert errors == [0, 0, ErrorCode.COORDINATOR_NOT_AVAILABLE, 0]

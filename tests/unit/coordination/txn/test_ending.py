"""How transactions end: commits, aborts, retries, delays, timeouts and restarts."""

from __future__ import annotations

import pytest

from penstock.coordination.effects import Effects, Moment
from penstock.coordination.txn import ending
from penstock.coordination.txn.ending import Markers
from penstock.coordination.txn.states import TxnState
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.protocol.generated.end_txn import EndTxnResponse
from tests.unit.coordination.txn.desk import HERE, NAME, NOON, THERE, Desk, exhausted


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    made.init()
    made.add(HERE, THERE)
    return made


def old_desk() -> Desk:
    """A client of transaction version 1."""
    made = Desk()
    made.init()
    made.add(HERE, version=0)
    return made


def of(answer: EndTxnResponse) -> tuple[int, int]:
    assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
    return answer.producer_id, answer.producer_epoch


# -- transaction version 2 --------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_decides_and_asks_for_markers_under_a_new_epoch(desk: Desk, commit: bool) -> None:
    assert of(desk.end(commit)) == (1000, 1)
    prepared = TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT
    assert desk.state is prepared
    assert desk.errands == [Markers(NAME, 1000, 1, commit, (HERE, THERE), 2)]
    desk.write_markers()
    assert desk.state is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT)
    assert desk.transaction.partitions == {}


def test_a_retry_waits_for_the_markers_and_is_answered_as_the_first(desk: Desk) -> None:
    first = of(desk.end(epoch=0))
    assert desk.end(epoch=0).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    desk.write_markers()
    assert of(desk.end(epoch=0)) == first
    assert desk.end(commit=False, epoch=0).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_retry_of_the_other_outcome_is_refused_while_markers_are_written(desk: Desk) -> None:
    desk.end()
    assert desk.end(commit=False, epoch=0).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_delayed_end_does_not_end_the_next_transaction(desk: Desk) -> None:
    desk.end(epoch=0)
    desk.write_markers()
    desk.add(HERE)
    assert desk.end(epoch=0).error_code == ErrorCode.PRODUCER_FENCED
    assert desk.state is TxnState.ONGOING
    assert of(desk.end(epoch=1)) == (1000, 2)


def test_a_commit_of_nothing_is_refused(desk: Desk) -> None:
    desk.end()
    desk.write_markers()
    assert desk.end().error_code == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("before", ["nothing", "commit", "abort"])
def test_an_abort_of_nothing_raises_the_epoch(before: str) -> None:
    desk = Desk()
    desk.init()
    if before != "nothing":
        desk.add(HERE)
        desk.end(before == "commit")
        desk.write_markers()
    epoch = desk.transaction.epoch
    assert of(desk.end(commit=False)) == (1000, epoch + 1)
    assert desk.errands == [Markers(NAME, 1000, epoch + 1, False, (), 2)]
    desk.write_markers()
    assert desk.state is TxnState.COMPLETE_ABORT


def test_when_the_epochs_are_used_up_the_answer_names_a_new_producer() -> None:
    desk = Desk()
    desk.init()
    desk.add(HERE)
    exhausted(desk)
    assert of(desk.end()) == (1001, 0)
    assert desk.errands == [Markers(NAME, 1000, 32767, True, (HERE,), 2)]
    assert desk.producer == (1000, 32767)
    desk.write_markers()
    assert desk.producer == (1001, 0)
    assert of(desk.end(producer_id=1000, epoch=32766)) == (1001, 0)  # a retry
    desk.add(HERE)
    late = desk.end(producer_id=1000, epoch=32766)
    assert late.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_without_producer_ids_at_hand_the_end_comes_again() -> None:
    desk = Desk()
    desk.init()
    desk.add(HERE)
    exhausted(desk)
    desk.no_ids = True
    assert desk.end().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    desk.no_ids = False
    assert of(desk.end()) == (1001, 0)


@pytest.mark.parametrize("version", [1, 2])
def test_others_end_nothing(desk: Desk, version: int) -> None:
    wrong = desk.end(producer_id=5, version=version)
    assert wrong.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.end(epoch=9, version=version).error_code == ErrorCode.PRODUCER_FENCED
    unknown = desk.end(name="nobody", version=version)
    assert unknown.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.state is TxnState.ONGOING


# -- transaction version 1 --------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_old_clients_keep_their_epoch(commit: bool) -> None:
    desk = old_desk()
    assert of(desk.end(commit, version=1)) == (1000, 0)
    assert desk.errands == [Markers(NAME, 1000, 0, commit, (HERE,), 0)]
    desk.write_markers()
    assert of(desk.end(commit, version=1)) == (1000, 0)  # a retry
    other = desk.end(not commit, version=1)
    assert other.error_code == ErrorCode.INVALID_TXN_STATE


def test_old_clients_wait_for_the_markers() -> None:
    desk = old_desk()
    desk.end(version=1)
    assert desk.end(version=1).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.end(False, version=1).error_code == ErrorCode.INVALID_TXN_STATE


def test_old_clients_cannot_end_what_has_not_begun() -> None:
    desk = Desk()
    desk.init()
    for commit in (True, False):
        assert desk.end(commit, version=1).error_code == ErrorCode.INVALID_TXN_STATE


# -- the clock --------------------------------------------------------------------------------


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(desk: Desk) -> None:
    desk.wait(60_000)
    assert desk.state is TxnState.ONGOING
    desk.wait(10_001)
    assert desk.state is TxnState.PREPARE_ABORT
    desk.write_markers()
    assert desk.state is TxnState.COMPLETE_ABORT
    assert desk.add(HERE, epoch=0) is ErrorCode.PRODUCER_FENCED
    assert desk.end(commit=False, epoch=0).error_code == ErrorCode.NONE  # it wanted that anyway
    assert desk.end(commit=True, epoch=0).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_cluster_of_version_1_fences_by_epoch_too() -> None:
    desk = Desk(version=1)
    desk.init()
    desk.add(HERE, version=0)
    desk.wait(80_000)
    assert desk.errands == [Markers(NAME, 1000, 1, False, (HERE,), 0)]
    assert desk.end(version=1, epoch=0).error_code == ErrorCode.PRODUCER_FENCED


def test_nothing_is_watched_while_nothing_is_ongoing(desk: Desk) -> None:
    desk.end()
    desk.write_markers()
    desk.wait(20_000)
    assert ending.TIMEOUTS not in desk.timers
    desk.add(HERE)
    assert ending.TIMEOUTS in desk.timers


def test_a_log_that_refuses_does_not_stop_the_watch(desk: Desk) -> None:
    desk.full = True
    desk.wait(90_000)
    assert desk.state is TxnState.ONGOING
    desk.full = False
    desk.wait(10_000)
    assert desk.state is TxnState.PREPARE_ABORT


def test_a_refused_addition_leaves_the_watch_on() -> None:
    desk = Desk()
    desk.init()
    desk.full = True
    desk.ask(
        lambda shard, at, out, ticket: (
            ending.watch_timeouts(shard, at, out, begun=True) or out.reply(ticket, EndTxnResponse())
        )
    )
    desk.full = False
    desk.add(HERE)
    desk.wait(80_000)
    assert desk.state is TxnState.PREPARE_ABORT


def test_many_overdue_transactions_are_aborted_in_several_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending, "OVERDUE_BYTES_PER_STEP", 150)
    desk = Desk()
    desk.init()
    desk.add(*(("t", index) for index in range(30)))
    for name in ("a", "b", "c"):
        answer = desk.init(name)
        what = desk._participation([HERE], 2)._replace(
            transactional_id=name, producer_id=answer.producer_id, epoch=0
        )
        desk.ask(ending_add, what)
    desk.wait(80_000)
    assert {each.state for each in desk.shard.transactions.values()} == {TxnState.PREPARE_ABORT}
    assert len(desk.errands) == 4


def test_overdue_transactions_fit_into_the_log_however_long_their_names_are() -> None:
    """All in one batch, they would be refused again and again, and so would others' with them."""
    desk = Desk()
    names = [f"{number}-{'x' * 20_000}" for number in range(60)]
    for name in names:
        answer = desk.init(name)
        what = desk._participation([HERE], 2)._replace(
            transactional_id=name, producer_id=answer.producer_id, epoch=0
        )
        desk.ask(ending_add, what)
    at = Moment(Millis(NOON + 80_000), Millis(80_000))
    steps = 0
    while desk.shard.ongoing:
        out = Effects()
        ending.abort_overdue(desk.shard, at, out)
        assert sum(len(str(each.key)) for each in out.records) < 512 * 1024
        for record in out.records:
            desk.shard.replay(0, record.key, record.value, -1)
        steps += 1
    assert 1 < steps < 60


def ending_add(*arguments: object) -> None:
    from penstock.coordination.txn.adding import add

    add(*arguments)  # type: ignore[arg-type]


def test_ids_that_nobody_uses_are_forgotten(desk: Desk) -> None:
    desk.end()
    desk.write_markers()
    desk.init("other")
    desk.wait(8 * 86_400_000)
    assert desk.shard.transactions == {}
    assert desk.reloaded().shard.transactions == {}


def test_a_transaction_that_is_ending_is_not_forgotten(desk: Desk) -> None:
    desk.end()
    desk.wait(8 * 86_400_000)
    assert desk.state is TxnState.PREPARE_COMMIT


# -- restarts ---------------------------------------------------------------------------------


def test_a_new_coordinator_goes_on_with_the_markers(desk: Desk) -> None:
    desk.end()
    after = desk.reloaded()
    assert after.errands == desk.errands
    after.write_markers()
    assert after.state is TxnState.COMPLETE_COMMIT
    assert of(after.end(epoch=0)) == (1000, 1)  # a retry, at the new coordinator


def test_a_new_coordinator_watches_what_is_ongoing(desk: Desk) -> None:
    desk.wait(55_000)
    after = desk.reloaded()
    after.timers = {key: desk.now + at for key, at in after.timers.items()}
    after.wait(20_000)
    assert after.state is TxnState.PREPARE_ABORT


def test_markers_of_a_decision_that_is_no_longer_the_last_one_complete_nothing(desk: Desk) -> None:
    desk.end()
    (errand,) = desk.errands
    desk.write_markers()
    desk.add(HERE)
    assert desk.ask(ending.complete, errand).error_code == ErrorCode.INVALID_TXN_STATE
    assert desk.state is TxnState.ONGOING


def test_without_the_feature_records_are_written_in_version_0() -> None:
    desk = Desk(version=0)
    desk.init()
    desk.add(HERE, version=0)
    desk.end(version=1)
    assert {record.version for record in desk.records} == {0}
    assert desk.reloaded().state is TxnState.PREPARE_COMMIT

"""The judge of simulated streams groups: what it lets pass, and what it does not."""

from __future__ import annotations

import pytest

from penstock.testing.sim.clients.streams_ledger import Given, Task, TaskLedger
from penstock.testing.sim.clients.violation import Violation

ONE: Task = ("0", 0)
TWO: Task = ("0", 1)
PATIENCE = 3.0
OWING = 2.0


def give(ledger: TaskLedger, member: str, at: float, *tasks: Task, epoch: int = 1) -> None:
    """A member is told what to run; it has asked a moment ago."""
    ledger.hear(member, at - 0.1, epoch)
    ledger.give(member, tasks, at - 0.1, Given(member, at, epoch))


def test_a_task_that_was_given_up_may_go_to_another() -> None:
    ledger = TaskLedger(PATIENCE, OWING)
    give(ledger, "a", 1.0, ONE, TWO)
    give(ledger, "a", 2.0, TWO)
    give(ledger, "b", 3.0, ONE)
    ledger.lives("a", 2, 4.0, 1)
    assert ledger.running() == [ONE, TWO]


def test_a_task_of_a_member_that_was_heard_of_a_moment_ago_may_not() -> None:
    ledger = TaskLedger(PATIENCE, OWING)
    give(ledger, "a", 1.0, ONE)
    with pytest.raises(Violation, match=r"got task .* of a, who was heard of 1.100 s ago"):
        give(ledger, "b", 2.0, ONE)


def test_a_task_of_one_that_did_not_let_go_in_time_may() -> None:
    ledger = TaskLedger(PATIENCE, OWING)
    give(ledger, "a", 1.0, ONE, TWO)
    ledger.owe("a", 1.5)
    ledger.hear("a", 3.0, 1)
    ledger.owe("a", 3.0)  # still: it began before
    give(ledger, "b", 3.5, ONE)
    assert ledger.running() == [ONE, ONE, TWO]


def test_a_task_of_one_that_said_what_it_runs_may_not() -> None:
    ledger = TaskLedger(PATIENCE, OWING)
    give(ledger, "a", 1.0, ONE, TWO)
    ledger.owe("a", 1.5)
    ledger.owe_nothing("a")
    ledger.owe("a", 3.0)
    with pytest.raises(Violation, match="heard of"):
        give(ledger, "b", 3.5, ONE)


def test_a_task_of_one_that_still_is_a_member_may_not() -> None:
    ledger = TaskLedger(PATIENCE, OWING)
    give(ledger, "a", 1.0, ONE)
    give(ledger, "b", 5.0, ONE)
    with pytest.raises(Violation, match=r"a has task .* got it as well"):
        ledger.lives("a", 2, 6.0, 1)


def test_a_task_of_a_member_that_was_fenced_may() -> None:
    ledger = TaskLedger(PATIENCE, OWING)
    give(ledger, "a", 1.0, ONE)
    give(ledger, "b", 5.0, ONE)
    ledger.lost("a")
    ledger.lives("b", 2, 6.0, 1)
    assert ledger.running() == [ONE]


def test_a_coordinator_that_was_replaced_proves_nothing() -> None:
    ledger = TaskLedger(PATIENCE, OWING)
    give(ledger, "a", 1.0, ONE, epoch=1)
    give(ledger, "b", 2.0, ONE, epoch=2)
    ledger.lives("a", 2, 3.0, 1)
    with pytest.raises(Violation):
        ledger.lives("a", 2, 4.0, 2)


def test_an_answer_that_may_be_older_than_the_others_proves_nothing() -> None:
    ledger = TaskLedger(PATIENCE, OWING)
    give(ledger, "a", 1.0, ONE)
    ledger.give("b", [ONE], 0.5, Given("b", 2.0, 1))
    ledger.lives("a", 2, 3.0, 1)
    assert ledger.running() == [ONE, ONE]


def test_epochs_do_not_fall() -> None:
    ledger = TaskLedger(PATIENCE, OWING)
    ledger.lives("a", 2, 1.0, 1)
    ledger.lives("a", 2, 2.0, 1)
    with pytest.raises(Violation, match="was at epoch 2, and is told 1"):
        ledger.lives("a", 1, 3.0, 1)

"""The judge of a simulated share group tells what is wrong from what only looks so."""

from __future__ import annotations

import pytest

from penstock.testing.sim.clients.share_ledger import Ledger, Seen
from penstock.testing.sim.clients.violation import Violation

LOCK = 2.0


def deliver(
    ledger: Ledger,
    member: str,
    offset: int,
    *,
    sent: float,
    epoch: int = 1,
    answered_in: int | None = None,
    count: int = 1,
) -> None:
    """A member asked at some time, and got one record a moment later."""
    ledger.deliver(
        member,
        [offset],
        count,
        sent=sent,
        got=sent + 0.1,
        lock_seconds=LOCK,
        seen=Seen(2, epoch, epoch if answered_in is None else answered_in),
    )


def test_what_was_accepted_does_not_come_again() -> None:
    ledger = Ledger(5)
    deliver(ledger, "ann", 7, sent=1.0)
    ledger.accept([7], 2.0, epoch=1)
    ledger.let_go([7])
    with pytest.raises(Violation, match="after it was accepted"):
        deliver(ledger, "bob", 7, sent=2.5, epoch=3)


def test_who_asked_before_the_answer_may_get_what_is_accepted_meanwhile() -> None:
    ledger = Ledger(5)
    ledger.accept([7], 2.0, epoch=1)
    deliver(ledger, "bob", 7, sent=1.9)
    assert ledger.deliveries == 1


def test_a_leader_that_was_replaced_cannot_know_what_is_accepted() -> None:
    ledger = Ledger(5)
    ledger.accept([7], 2.0, epoch=3)
    deliver(ledger, "bob", 7, sent=2.5, epoch=2)
    assert ledger.deliveries == 1


def test_two_members_do_not_hold_one_record() -> None:
    ledger = Ledger(5)
    deliver(ledger, "ann", 7, sent=1.0)
    deliver(ledger, "bob", 7, sent=1.5, count=2)
    with pytest.raises(Violation, match="ann held 7, and bob got it meanwhile"):
        ledger.lives("ann", sent=1.8)


def test_a_leader_that_was_elected_again_meanwhile_knows_of_no_holds() -> None:
    ledger = Ledger(5)
    deliver(ledger, "ann", 7, sent=1.0)
    deliver(ledger, "bob", 7, sent=1.5, answered_in=2)
    ledger.lives("ann", sent=1.8)
    assert ledger.deliveries == 2


@pytest.mark.parametrize(
    ("what", "bob_asks"),
    [
        ("the lock ended", 3.5),
        ("the lock ended, by clocks of whole milliseconds", 2.8995),
        ("ann let go", 1.5),
        ("ann was lost", 1.5),
    ],
)
def test_a_record_that_is_free_may_go_to_another(what: str, bob_asks: float) -> None:
    ledger = Ledger(5)
    deliver(ledger, "ann", 7, sent=1.0)
    if what == "ann let go":
        ledger.let_go([7])
    elif what == "ann was lost":
        ledger.lost("ann")
    deliver(ledger, "bob", 7, sent=bob_asks, count=2)
    ledger.lives("ann", sent=9.0)
    assert ledger.deliveries == 2


def test_no_record_is_delivered_more_often_than_allowed() -> None:
    ledger = Ledger(2)
    with pytest.raises(Violation, match="as delivery 3"):
        deliver(ledger, "ann", 7, sent=1.0, count=3)


def test_what_nobody_accepted_rejected_or_had_for_the_last_time_is_missing() -> None:
    ledger = Ledger(2)
    ledger.saw(accepted=[1], rejected=[2])
    deliver(ledger, "ann", 3, sent=1.0, count=2)
    deliver(ledger, "ann", 4, sent=1.0, count=1)
    assert ledger.missing(range(6)) == [0, 4, 5]


def test_only_what_nobody_took_needs_a_letter() -> None:
    ledger = Ledger(5)
    ledger.saw(accepted=[1], rejected=[1, 2])
    ledger.reject([1, 2])
    assert ledger.rejected == {2}

"""What ends by itself: locks, and the waits of records that came back."""

from __future__ import annotations

import pytest

from penstock.coordination.delivery.effects import Acquired, StateBatch
from penstock.coordination.delivery.settings import Backoff, DeliverySettings
from penstock.coordination.delivery.states import State
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis

from .desk import ACCEPT, REJECT, RELEASE, RENEW, WALL, Desk, NoChance

WAITS = DeliverySettings(backoff=Backoff(10_000, 60_000, 3.0))


def test_a_lock_ends_by_itself() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    assert desk.delivery.next_due == 35_000
    desk.wait(29_999)
    assert desk.states == [(0, 9, "ACQUIRED")]
    desk.wait(1)
    assert desk.ready
    assert desk.writes[0].batches == (StateBatch(0, 9, State.AVAILABLE, 1),)
    assert desk.fetch("bob", (0, 9)) == [Acquired(0, 9, 2)]
    desk.say("ann", 0, 9, ACCEPT)
    assert desk.answers == [("said", ErrorCode.INVALID_RECORD_STATE)]


def test_the_end_of_a_lock_stands_although_it_was_not_written() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.wait(30_000)
    desk.write(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert desk.states == [(0, 9, "AVAILABLE")]


def test_the_last_lock_gives_a_record_up() -> None:
    desk = Desk(DeliverySettings(count_max=1))
    desk.fetch("ann", (0, 9))
    desk.wait(30_000)
    assert desk.writes[0].batches == (StateBatch(0, 9, State.ARCHIVED, 1),)
    assert desk.delivery.start == 10


def test_nothing_is_due_when_nothing_is_out() -> None:
    desk = Desk()
    assert desk.delivery.next_due is None
    desk.fetch("ann", (0, 9))
    desk.accept("ann", 0, 9)
    desk.wait(30_000)
    assert desk.delivery.next_due is None


def test_thousands_of_ends_do_not_have_everything_looked_through_each_time() -> None:
    desk = Desk()
    for offset in range(100):
        desk.fetch("ann", (offset, offset))
        desk.wait(1)
    looks, end = 0, desk.at.mono + 40_000
    while (due := desk.delivery.next_due) is not None and due < end:
        desk.wait(due - desk.at.mono)
        looks += 1
    assert looks <= 12
    assert {state for _, _, state in desk.states} == {"AVAILABLE"}


def test_the_records_of_a_session_that_is_over_are_available_at_once() -> None:
    desk = Desk(WAITS)
    desk.fetch("ann", (0, 9))
    desk.fetch("bob", (10, 19))
    desk.leave("ann")
    assert desk.next == 0
    assert desk.writes[0].batches == (StateBatch(0, 9, State.AVAILABLE, 1),)
    assert desk.fetch("bob", (0, 9)) == [Acquired(0, 9, 2)]


def test_the_records_of_a_member_that_vanished_wait_first() -> None:
    desk = Desk(WAITS)
    desk.fetch("ann", (0, 9))
    desk.leave("ann", clean=False)
    assert desk.next == 10
    desk.wait(10_000)
    assert desk.next == 0


def test_a_record_that_kills_its_consumers_is_given_up_in_the_end() -> None:
    desk = Desk(DeliverySettings(count_max=3))
    for _ in range(3):
        desk.fetch("ann", (0, 0))
        desk.leave("ann", clean=False)
    assert desk.writes[-1].batches == (StateBatch(0, 0, State.ARCHIVED, 3),)
    assert desk.delivery.start == 1


def test_what_a_member_has_said_is_not_taken_from_it_when_it_leaves() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.say("ann", 0, 4, ACCEPT)
    desk.leave("ann")
    desk.write()
    assert desk.answers == [("said", ErrorCode.NONE)]
    assert desk.states == [(5, 9, "AVAILABLE")]


def test_a_released_record_waits_longer_each_time() -> None:
    desk = Desk(WAITS)
    begun = desk.at.wall
    for wait_ms in (10_000, 30_000, 60_000):
        desk.fetch("ann", (0, 0))
        desk.say("ann", 0, 0, RELEASE)
        begun = desk.at.wall
        (batch,) = desk.write().batches
        assert batch.not_before == begun + wait_ms
        desk.wait(wait_ms - 1)
        assert desk.next == 1
        desk.wait(20)
        assert desk.next == 0


def test_a_late_answer_about_a_release_does_not_make_it_wait_twice() -> None:
    desk = Desk(WAITS)
    desk.fetch("ann", (0, 0))
    desk.say("ann", 0, 0, RELEASE)
    desk.wait(7_000)
    desk.write()
    assert desk.next == 1
    desk.wait(3_000)
    assert desk.next == 0


def test_others_pass_a_record_that_waits() -> None:
    desk = Desk(WAITS)
    desk.fetch("ann", (0, 2))
    desk.say("ann", 0, 2, ACCEPT, RELEASE, ACCEPT)
    desk.write()
    assert (desk.delivery.start, desk.next) == (1, 3)
    assert desk.fetch("bob", (0, 2), (3, 5), read_from=1) == [Acquired(3, 5, 1)]


def test_a_wait_is_kept_by_whoever_leads_next() -> None:
    held = [StateBatch(0, 4, State.AVAILABLE, 2, Millis(WALL + 5_000))]
    desk = Desk(WAITS, 0, held)
    assert (desk.next, desk.delivery.next_due) == (5, 10_000)
    desk.wait(5_000)
    assert desk.ready
    assert desk.fetch("ann", (0, 4)) == [Acquired(0, 4, 3)]


@pytest.mark.parametrize(
    ("backoff", "left"),
    [
        (Backoff(10_000, 60_000, 3.0), 30_000),
        (Backoff(10_000, 60_000, 3.0, 0.5), 45_000),
        (Backoff(1_000), 1_000),
    ],
)
def test_a_clock_that_is_behind_makes_no_wait_longer_than_it_was_to_be(
    backoff: Backoff, left: int
) -> None:
    held = [StateBatch(0, 4, State.AVAILABLE, 2, Millis(WALL + 3_600_000))]
    desk = Desk(DeliverySettings(backoff=backoff), 0, held)
    assert desk.delivery.next_due == desk.at.mono + left


def test_a_back_off_that_was_switched_off_holds_nothing_up() -> None:
    held = [StateBatch(0, 4, State.AVAILABLE, 2, Millis(WALL + 3_600_000))]
    assert Desk(DeliverySettings(), 0, held).next == 0


def test_what_is_done_with_behind_a_record_that_waits_takes_no_room() -> None:
    desk = Desk(WAITS)
    desk.fetch("ann", (0, 0))
    desk.say("ann", 0, 0, RELEASE)
    desk.write()
    for first in range(1, 2_001, 200):
        desk.fetch("ann", (first, first + 199))
        desk.say("ann", first, first + 199, *(ACCEPT, REJECT) * 100)
        desk.write()
    assert len(desk.states) < 100


def test_a_lock_that_is_renewed_ends_when_the_group_says_now() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.wait(10_000)
    desk.delivery.settings = DeliverySettings(lock_ms=1_000)
    desk.say("ann", 0, 9, RENEW)
    assert desk.delivery.next_due == desk.at.mono + 1_000
    desk.wait(1_000)
    assert desk.fetch("bob", (0, 9)) == [Acquired(0, 9, 2)]


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (Backoff(), [0, 0, 0]),
        (Backoff(500), [500, 500, 500]),
        (Backoff(500, 500, 2.0), [500, 500, 500]),
        (Backoff(100, 1_000, 4.0), [100, 400, 1_000]),
        (Backoff(100, 10_000, 2.0, 0.5), [150, 300, 600]),
        (Backoff(100, 10_000, 0.5), [100, 50, 50]),
    ],
)
def test_waits_grow_up_to_a_bound(backoff: Backoff, waits: list[int]) -> None:
    assert [backoff.wait_ms(count, NoChance()) for count in (1, 2, 3)] == waits


def test_a_wait_after_absurdly_many_deliveries_is_bounded() -> None:
    assert Backoff(1_000, 86_400_000, 1e300).wait_ms(32_767, NoChance()) == 86_400_000

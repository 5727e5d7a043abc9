"""Records that are given up, on their way to the dead-letter topic."""

from __future__ import annotations

from penstock.coordination.delivery.effects import DeadLetter, Reason, StateBatch
from penstock.coordination.delivery.settings import DeliverySettings
from penstock.coordination.delivery.states import State
from penstock.model.errors import ErrorCode

from .desk import ACCEPT, GAP, REJECT, RELEASE, Desk

BURIES = DeliverySettings(buries=True, count_max=2, in_flight_max=100_000)
AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_rejected_record_is_buried_before_it_is_archived() -> None:
    desk = Desk(BURIES)
    desk.fetch("ann", (0, 2))
    desk.say("ann", 0, 2, ACCEPT, REJECT, ACCEPT)
    assert desk.dead == []
    write = desk.write()
    assert write.batches[1] == StateBatch(1, 1, State.ARCHIVING, 1)
    assert write.complete == 2
    assert desk.answers == [("said", ErrorCode.NONE)]
    assert desk.delivery.start == 1
    assert not desk.delivery.is_finished
    assert desk.bury() == DeadLetter(1, 1, 1, Reason.REJECTED)
    assert desk.delivery.start == 3
    assert desk.write().batches == (StateBatch(1, 1, State.ARCHIVED, 1),)
    assert desk.delivery.is_finished


def test_a_record_that_was_delivered_too_often_is_buried() -> None:
    desk = Desk(BURIES)
    for _ in range(2):
        desk.fetch("ann", (0, 0))
        desk.wait(30_000)
        desk.write()
    assert desk.bury() == DeadLetter(0, 0, 2, Reason.DELIVERIES)


def test_a_gap_is_not_buried() -> None:
    desk = Desk(BURIES)
    desk.fetch("ann", (0, 0))
    desk.say("ann", 0, 0, GAP)
    assert desk.write().batches == (StateBatch(0, 0, State.ARCHIVED, 1),)
    assert desk.dead == []


def test_nothing_is_buried_that_could_still_be_delivered_by_another_leader() -> None:
    desk = Desk(BURIES)
    desk.fetch("ann", (0, 0))
    desk.say("ann", 0, 0, REJECT)
    desk.write(AWAY)
    assert desk.dead == []
    assert desk.states == [(0, 0, "ACQUIRED")]


def test_giving_up_a_record_is_written_until_it_is_kept() -> None:
    desk = Desk(DeliverySettings(buries=True, count_max=1))
    desk.fetch("ann", (0, 0))
    desk.wait(30_000)
    desk.write(AWAY)
    assert (desk.dead, desk.states) == ([], [(0, 0, "ARCHIVING")])
    desk.wait(1_000)
    assert desk.write().batches == (StateBatch(0, 0, State.ARCHIVING, 1),)
    assert desk.bury() == DeadLetter(0, 0, 1, Reason.DELIVERIES)


def test_a_burial_that_failed_is_tried_again_with_patience() -> None:
    desk = Desk(BURIES)
    desk.fetch("ann", (0, 0))
    desk.say("ann", 0, 0, REJECT)
    desk.write()
    waits = []
    for _ in range(8):
        desk.bury(succeeds=False)
        due = desk.delivery.next_due
        assert due is not None
        waits.append(due - desk.at.mono)
        desk.wait(due - desk.at.mono)
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
    assert desk.states == [(0, 0, "ARCHIVING")]
    desk.bury()
    assert desk.delivery.start == 1


def test_few_letters_are_on_their_way_at_a_time() -> None:
    desk = Desk(BURIES)
    desk.fetch("ann", (0, 9_999), records_max=100_000)
    desk.say("ann", 0, 9_999, REJECT)
    desk.write()
    letters = []
    while desk.dead:
        assert len(desk.dead) <= 4
        letters.append(desk.bury())
    assert [(letter.first, letter.last) for letter in letters] == [
        (first, first + 499) for first in range(0, 10_000, 500)
    ]
    assert desk.delivery.start == 10_000


def test_whoever_leads_next_buries_what_was_on_its_way() -> None:
    held = [
        StateBatch(0, 1, State.ARCHIVING, 2),
        StateBatch(2, 2, State.ARCHIVING, 1),
        StateBatch(3, 3, State.ARCHIVING, 0),
        StateBatch(4, 4, State.ACKNOWLEDGED, 1),
    ]
    desk = Desk(BURIES, 0, held)
    assert desk.next == 5
    due = desk.delivery.next_due
    assert due is not None
    desk.wait(due - desk.at.mono)
    assert [desk.bury() for _ in range(3)] == [
        DeadLetter(0, 1, 2, Reason.DELIVERIES),
        DeadLetter(2, 2, 1, Reason.REJECTED),
        DeadLetter(3, 3, 0, Reason.EXPIRED),
    ]
    assert desk.delivery.start == 5


def test_records_that_expired_are_buried_undelivered() -> None:
    desk = Desk(BURIES)
    assert desk.fetch("ann", (0, 4), (5, 9), expired=[(2, 5)]) == [(0, 1, 1), (6, 9, 1)]
    assert desk.write().batches == (StateBatch(2, 5, State.ARCHIVING, 0),)
    assert desk.bury() == DeadLetter(2, 5, 0, Reason.EXPIRED)


def test_records_that_expired_while_they_waited_are_buried_too() -> None:
    desk = Desk(BURIES)
    desk.fetch("ann", (0, 4))
    desk.say("ann", 0, 4, RELEASE)
    desk.write()
    assert desk.fetch("ann", (0, 4), expired=[(1, 3)]) == [(0, 0, 2), (4, 4, 2)]
    desk.write()
    assert desk.bury() == DeadLetter(1, 3, 1, Reason.EXPIRED)


def test_without_a_dead_letter_topic_what_expired_is_archived() -> None:
    desk = Desk()
    assert desk.fetch("ann", (0, 4), expired=[(0, 2)]) == [(3, 4, 1)]
    assert (desk.delivery.start, desk.writes) == (3, [])


def test_what_retention_took_is_not_buried() -> None:
    desk = Desk(BURIES)
    desk.fetch("ann", (0, 2_999), records_max=100_000)
    desk.say("ann", 0, 2_999, REJECT)
    desk.write()
    desk.log_start(2_750)
    letters = []
    while desk.dead:
        letters.append(desk.bury())
    assert [(letter.first, letter.last) for letter in letters[4:]] == [(2_750, 2_999)]
    assert desk.delivery.start == 3_000

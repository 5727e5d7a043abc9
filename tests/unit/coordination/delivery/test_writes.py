"""Writes to the share coordinator: in order, several at a time, and some fail."""

from __future__ import annotations

import pytest

from penstock.coordination.delivery.effects import Acquired, StateBatch
from penstock.coordination.delivery.settings import DeliverySettings
from penstock.coordination.delivery.states import State
from penstock.model.errors import ErrorCode

from .desk import ACCEPT, REJECT, RELEASE, Desk

AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_failed_write_gives_the_record_back_to_its_member() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.say("ann", 0, 9, ACCEPT)
    desk.write(AWAY)
    assert desk.answers == [("said", AWAY)]
    assert desk.delivery.view() == [(0, 9, "ACQUIRED", 1, "ann")]
    desk.accept("ann", 0, 9)
    assert desk.delivery.start == 10


@pytest.mark.parametrize("word", [ACCEPT, RELEASE, REJECT])
def test_a_lock_that_ended_during_a_failed_write_is_over(word: int) -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.say("ann", 0, 9, word)
    desk.wait(40_000)
    assert desk.states != [(0, 9, "ACQUIRED")], "nothing happens to what is being written"
    desk.write(AWAY)
    assert desk.delivery.view() == [(0, 9, "AVAILABLE", 1, "")]
    assert desk.ready
    assert desk.writes[0].batches == (StateBatch(0, 9, State.AVAILABLE, 1),)
    assert desk.fetch("bob", (0, 9)) == [Acquired(0, 9, 2)]


def test_a_lock_that_ended_during_the_last_delivery_gives_the_record_up() -> None:
    desk = Desk(DeliverySettings(count_max=1))
    desk.fetch("ann", (0, 9))
    desk.say("ann", 0, 9, ACCEPT)
    desk.wait(40_000)
    desk.write(AWAY)
    assert desk.delivery.start == 10
    assert desk.writes[0].batches == (StateBatch(0, 9, State.ARCHIVED, 1),)


def test_a_write_that_succeeds_counts_even_after_the_lock() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.say("ann", 0, 9, ACCEPT)
    desk.wait(40_000)
    desk.write()
    assert desk.answers == [("said", ErrorCode.NONE)]
    assert desk.delivery.start == 10


def test_the_start_waits_for_what_is_below_it() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 4))
    desk.fetch("bob", (5, 9))
    desk.say("ann", 0, 4, ACCEPT, token="ann's")
    desk.say("bob", 5, 9, ACCEPT, token="bob's")
    assert [write.complete for write in desk.writes] == [5, 10]
    desk.write(AWAY)
    desk.write()
    assert desk.answers == [("ann's", AWAY), ("bob's", ErrorCode.NONE)]
    assert desk.delivery.start == 0
    desk.say("ann", 0, 4, ACCEPT)
    assert desk.writes[0].complete == 10
    desk.write()
    assert desk.delivery.start == 10


@pytest.mark.parametrize(
    ("error", "heard"),
    [
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_state_that_is_gone_or_belongs_to_another_ends_the_machine(
    error: ErrorCode, heard: ErrorCode
) -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.say("ann", 0, 4, ACCEPT, token="first")
    desk.say("ann", 5, 6, ACCEPT, token="second")
    desk.write(error)
    assert desk.failed is error
    assert desk.answers == [("first", heard), ("second", heard)]
    desk.write()
    desk.say("ann", 7, 9, ACCEPT, token="third")
    assert desk.answers[2:] == [("third", heard)]
    assert desk.fetch("ann", (10, 19)) == []


@pytest.mark.parametrize(
    ("error", "heard"),
    [
        (ErrorCode.NOT_COORDINATOR, AWAY),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, AWAY),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_other_failures_are_told_as_kafka_does(error: ErrorCode, heard: ErrorCode) -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.say("ann", 0, 9, ACCEPT)
    desk.write(error)
    assert desk.answers == [("said", heard)]
    assert desk.failed is ErrorCode.NONE


def test_what_retention_took_is_done_with_whoever_holds_it() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.fetch("bob", (10, 19))
    desk.say("ann", 0, 3, ACCEPT)
    desk.log_start(12)
    assert desk.delivery.view() == [(12, 19, "ACQUIRED", 1, "bob")]
    desk.write(AWAY)
    desk.say("ann", 4, 9, ACCEPT)
    assert [error for _, error in desk.answers] == [AWAY, ErrorCode.NONE]
    desk.say("bob", 10, 19, ACCEPT)
    write = desk.write()
    assert (write.start, write.complete) == (12, 8)
    assert desk.delivery.start == 20


def test_retention_past_all_that_was_read_moves_the_reading() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.log_start(100)
    assert (desk.delivery.start, desk.next, desk.states) == (100, 100, [])
    assert desk.write().start == 100
    desk.log_start(50)
    assert (desk.delivery.start, desk.writes) == (100, [])


def test_half_of_what_is_being_written_may_vanish() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.say("ann", 0, 9, ACCEPT)
    desk.log_start(5)
    desk.write()
    assert (desk.delivery.start, desk.states) == (10, [])
    desk.fetch("ann", (10, 19))
    desk.say("ann", 10, 19, ACCEPT)
    assert desk.writes[0].complete == 10


def test_equal_neighbours_become_one_again() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 0))
    desk.fetch("bob", (1, 400))
    for offset in range(2, 400, 2):
        desk.accept("bob", offset, offset)
    for offset in range(1, 400, 2):
        desk.accept("bob", offset, offset)
    assert len(desk.states) < 200
    desk.accept("ann", 0, 0)
    assert desk.states == [(400, 400, "ACQUIRED")]


def test_a_machine_is_finished_when_nothing_is_on_its_way() -> None:
    desk = Desk()
    finished = [desk.delivery.is_finished]
    desk.fetch("ann", (0, 9))
    finished.append(desk.delivery.is_finished)
    desk.say("ann", 0, 9, RELEASE)
    finished.append(desk.delivery.is_finished)
    desk.write()
    finished.append(desk.delivery.is_finished)
    assert finished == [True, False, False, True]

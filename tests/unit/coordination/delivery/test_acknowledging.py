"""What members say about what they hold, and what the machine makes of it."""

from __future__ import annotations

import pytest

from penstock.coordination.delivery.effects import AckBatch, StateBatch
from penstock.coordination.delivery.settings import DeliverySettings
from penstock.coordination.delivery.states import State
from penstock.model.errors import ErrorCode

from .desk import ACCEPT, GAP, REJECT, RELEASE, RENEW, Desk

STATE = ErrorCode.INVALID_RECORD_STATE
REQUEST = ErrorCode.INVALID_REQUEST


def test_an_acknowledgement_counts_when_it_is_written() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.say("ann", 0, 9, ACCEPT)
    assert desk.answers == []
    assert desk.delivery.start == 0
    write = desk.write()
    assert write.batches == (StateBatch(0, 9, State.ACKNOWLEDGED, 1),)
    assert (write.start, write.complete) == (0, 10)
    assert desk.answers == [("said", ErrorCode.NONE)]
    assert (desk.delivery.start, desk.states) == (10, [])


def test_each_offset_may_have_its_own_word() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.say("ann", 0, 5, ACCEPT, ACCEPT, RELEASE, REJECT, GAP, ACCEPT)
    write = desk.write()
    assert write.batches == (
        StateBatch(0, 1, State.ACKNOWLEDGED, 1),
        StateBatch(2, 2, State.AVAILABLE, 1),
        StateBatch(3, 3, State.ARCHIVED, 1),
        StateBatch(4, 4, State.ARCHIVED, 1),
        StateBatch(5, 5, State.ACKNOWLEDGED, 1),
    )
    assert write.complete == 5
    assert desk.delivery.start == 2
    assert desk.next == 2


def test_words_about_neighbours_are_one_word() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.say_all("ann", *(AckBatch(offset, offset, (ACCEPT,)) for offset in range(10)))
    assert desk.writes[0].batches == (StateBatch(0, 9, State.ACKNOWLEDGED, 1),)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        pytest.param([AckBatch(4, 3, (1,))], REQUEST, id="backwards"),
        pytest.param([AckBatch(-1, 3, (1,))], REQUEST, id="below zero"),
        pytest.param([AckBatch(2, 4, ())], REQUEST, id="without a word"),
        pytest.param([AckBatch(2, 4, (1, 1))], REQUEST, id="too few words"),
        pytest.param([AckBatch(2, 4, (1, 1, 1, 1))], REQUEST, id="too many words"),
        pytest.param([AckBatch(2, 4, (5,))], REQUEST, id="an unknown word"),
        pytest.param([AckBatch(2, 4, (-1,))], REQUEST, id="a negative word"),
        pytest.param([AckBatch(4, 5, (1,)), AckBatch(2, 3, (1,))], REQUEST, id="not in order"),
        pytest.param([AckBatch(2, 4, (1,)), AckBatch(4, 5, (1,))], REQUEST, id="twice at once"),
        pytest.param([AckBatch(2, 1 << 62, (1,))], REQUEST, id="far past the end"),
        pytest.param([AckBatch(10, 10, (1,))], REQUEST, id="past the end"),
        pytest.param([AckBatch(0, 0, (1,))], STATE, id="done with, but for the start"),
        pytest.param([AckBatch(1, 2, (1,))], STATE, id="partly held by nobody"),
        pytest.param([AckBatch(5, 6, (1,))], STATE, id="held by another"),
        pytest.param([AckBatch(2, 3, (1,)), AckBatch(6, 6, (1,))], STATE, id="one of two"),
    ],
)
def test_nonsense_is_refused_and_nothing_of_it_counts(
    said: list[AckBatch], error: ErrorCode
) -> None:
    desk = Desk()
    desk.fetch("cleo", (0, 1))
    desk.fetch("ann", (2, 4))
    desk.fetch("bob", (5, 9))
    desk.say("cleo", 0, 1, RELEASE)
    desk.write()
    before = desk.states
    desk.answers.clear()
    desk.say_all("ann", *said)
    assert desk.answers == [("said", error)]
    assert desk.states == before
    assert desk.writes == []


def test_with_nothing_in_flight_there_is_nothing_to_speak_of() -> None:
    desk = Desk(start=10)
    desk.say("ann", 10, 12, ACCEPT)
    assert desk.answers == [("said", STATE)]


def test_what_is_done_with_may_be_spoken_of_again() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.accept("ann", 0, 9)
    desk.say("bob", 0, 9, RELEASE)
    assert [error for _, error in desk.answers] == [ErrorCode.NONE, ErrorCode.NONE]
    assert desk.states == []


def test_what_the_start_has_passed_does_not_spoil_the_rest() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.accept("ann", 0, 4)
    desk.say("ann", 0, 9, ACCEPT)
    desk.write()
    assert desk.answers[-1] == ("said", ErrorCode.NONE)
    assert desk.delivery.start == 10


def test_nothing_is_said_twice_while_it_is_written() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.say("ann", 0, 9, ACCEPT)
    desk.say("ann", 0, 9, ACCEPT, token="again")
    assert desk.answers == [("again", STATE)]


def test_what_is_being_released_is_nobodys_until_it_is_written() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.say("ann", 0, 9, RELEASE)
    assert desk.next == 10
    assert desk.fetch("bob", (0, 9), read_from=0) == []
    desk.write()
    assert desk.ready
    assert desk.next == 0


def test_the_last_release_gives_a_record_up() -> None:
    desk = Desk(DeliverySettings(count_max=2))
    for count in (1, 2):
        assert desk.fetch("ann", (0, 0)) == [(0, 0, count)]
        desk.say("ann", 0, 0, RELEASE)
        write = desk.write()
    assert write.batches == (StateBatch(0, 0, State.ARCHIVED, 2),)
    assert desk.delivery.start == 1


def test_a_member_may_ask_for_more_time() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 9))
    desk.wait(20_000)
    desk.say("ann", 0, 4, RENEW)
    assert desk.answers == [("said", ErrorCode.NONE)]
    assert desk.writes == []
    desk.wait(15_000)
    assert desk.states == [(0, 4, "ACQUIRED"), (5, 9, "AVAILABLE")]
    desk.wait(15_000)
    assert {state for _, _, state in desk.states} == {"AVAILABLE"}


def test_more_time_is_given_only_where_the_group_allows_it() -> None:
    desk = Desk(DeliverySettings(renewable=False))
    desk.fetch("ann", (0, 9))
    desk.say("ann", 0, 9, RENEW)
    assert desk.answers == [("said", STATE)]


def test_more_time_for_some_and_an_end_for_others_fit_into_one_request() -> None:
    desk = Desk()
    desk.fetch("ann", (0, 3))
    desk.say("ann", 0, 3, RENEW, ACCEPT, ACCEPT, RENEW)
    assert desk.write().batches == (StateBatch(1, 2, State.ACKNOWLEDGED, 1),)
    assert desk.states == [(0, 0, "ACQUIRED"), (1, 2, "ACKNOWLEDGED"), (3, 3, "ACQUIRED")]


def test_an_empty_acknowledgement_is_fine() -> None:
    desk = Desk()
    desk.say_all("ann")
    assert desk.answers == [("said", ErrorCode.NONE)]

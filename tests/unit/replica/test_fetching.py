"""A follower's decisions: tables of answers and steps, and logs that always become one."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import ErrorCode
from penstock.replica.fetching import (
    BACKOFF_MS_MIN,
    IGNORE,
    LOCATE,
    TAKE,
    Ask,
    CutTo,
    Following,
    StartAt,
    State,
    Step,
    Wait,
    make_room,
    where_to_cut,
)
from penstock.storage.epochs import LeaderEpochs

BACKOFF = 1000


class Held:
    """A log without bytes: a list of the epochs that wrote its offsets."""

    def __init__(
        self, entries: list[tuple[int, int]], end: int, start: int = 0, high_watermark: int = 0
    ) -> None:
        self.epochs = LeaderEpochs(lambda _: None)
        self.epochs.restore(entries)
        self.start = start
        self.end = end
        self.high_watermark = high_watermark


def following(epoch: int = 5) -> Following:
    return Following(1, epoch, BACKOFF)


def answered(
    error: ErrorCode = ErrorCode.NONE,
    diverging: tuple[int, int] | None = None,
    held: Held | None = None,
) -> tuple[Step, Following]:
    machine, held = following(), held or Held([(3, 0)], 10)
    asked = machine.ask(held)
    assert isinstance(asked, Ask)
    return machine.on_answer(asked, error, diverging, held, 100), machine


def test_a_fetch_names_our_end_and_who_wrote_it() -> None:
    assert following().ask(Held([(1, 0), (3, 4)], 10, start=2)) == Ask(10, 3, 5, 2)
    assert following().ask(Held([], 0)) == Ask(0, -1, 5, 0)


def test_batches_of_unknown_origin_are_cut_back_to_what_was_committed() -> None:
    assert following().ask(Held([], 10, high_watermark=6)) == CutTo(6)
    assert following().ask(Held([], 6, high_watermark=6)) == Ask(6, -1, 5, 0)


def test_records_are_taken() -> None:
    step, machine = answered()
    assert step is TAKE
    machine.on_taken(15, Held([], 12))
    assert (machine.lag, machine.in_sync) == (3, False)
    machine.on_taken(15, Held([], 17))
    assert (machine.lag, machine.in_sync) == (0, True)


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (ErrorCode.UNKNOWN_LEADER_EPOCH, logging.DEBUG),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, logging.DEBUG),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, logging.WARNING),
        (ErrorCode.UNKNOWN_TOPIC_ID, logging.WARNING),
        (ErrorCode.INCONSISTENT_TOPIC_ID, logging.WARNING),
        (ErrorCode.CORRUPT_MESSAGE, logging.ERROR),
        (ErrorCode.KAFKA_STORAGE_ERROR, logging.ERROR),
        (ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, logging.ERROR),
        (ErrorCode.UNKNOWN_SERVER_ERROR, logging.ERROR),
    ],
)
def test_an_error_is_waited_out(error: ErrorCode, level: int) -> None:
    step, machine = answered(error)
    assert isinstance(step, Wait) and step.level == level
    assert (machine.state, machine.due) == (State.DELAYED, 100 + BACKOFF_MS_MIN)
    assert not machine.is_ready(99 + BACKOFF_MS_MIN)
    assert machine.is_ready(100 + BACKOFF_MS_MIN)


def test_an_error_of_a_later_release_is_waited_out_too() -> None:
    machine, held = following(), Held([(3, 0)], 10)
    step = machine.on_answer(Ask(10, 3, 5, 0), 9999, None, held, 100)
    assert step == Wait("error 9999, which we do not know", logging.ERROR)
    assert machine.state is State.DELAYED


def test_waiting_grows_up_to_the_configured_time_and_begins_anew_after_success() -> None:
    machine, held, asked = following(), Held([(3, 0)], 10), Ask(10, 3, 5, 0)
    waits = []
    for error in [ErrorCode.KAFKA_STORAGE_ERROR] * 8 + [ErrorCode.NONE]:
        if machine.on_answer(asked, error, None, held, 0) is TAKE:
            machine.on_taken(10, held)
        waits.append(machine.due)
        machine.is_ready(10**9)
    assert waits[:-1] == [25, 50, 100, 200, 400, 800, 1000, 1000]
    machine.on_answer(asked, ErrorCode.UNKNOWN_TOPIC_ID, None, held, 0)
    assert machine.due == 25


def test_the_same_trouble_is_told_once_and_again_after_it_was_over() -> None:
    machine, held = following(), Held([(3, 0)], 10)
    asked = Ask(10, 3, 5, 0)
    levels = []
    for error in (1, 1, 0, 1) * 2:
        code = ErrorCode.CORRUPT_MESSAGE if error else ErrorCode.NONE
        step = machine.on_answer(asked, code, None, held, 0)
        levels.append(step.level if isinstance(step, Wait) else None)
        if step is TAKE:
            machine.on_taken(10, held)
        machine.is_ready(10**9)
    error_level = logging.ERROR
    assert levels == [error_level, 0, None, error_level, 0, 0, None, error_level]


def test_what_claims_to_be_of_an_epoch_that_has_not_begun_is_cut_off() -> None:
    held = Held([(1, 0), (2, 4), (33554432, 7), (33554433, 9)], 11, high_watermark=3)
    assert following(2).ask(held) == CutTo(7)
    held = Held([(1, 0), (2, 4)], 7, high_watermark=3)
    assert following(2).ask(held) == Ask(7, 2, 2, 0)


def test_a_fenced_follower_waits_for_another_epoch() -> None:
    step, machine = answered(ErrorCode.FENCED_LEADER_EPOCH)
    assert isinstance(step, Wait)
    assert machine.state is State.FAILED
    assert not machine.is_ready(10**12)


@pytest.mark.parametrize(
    "asked",
    [Ask(9, 3, 5, 0), Ask(11, 3, 5, 0), Ask(10, 3, 4, 0), Ask(10, 3, 6, 0)],
    ids=["we have more", "we were cut", "an older epoch", "a newer epoch"],
)
@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH])
def test_an_answer_to_what_we_no_longer_ask_changes_nothing(asked: Ask, error: ErrorCode) -> None:
    machine = following()
    assert machine.on_answer(asked, error, None, Held([(3, 0)], 10), 0) is IGNORE
    assert machine.state is State.FETCHING


@pytest.mark.parametrize(
    ("leader_start", "leader_end", "step"),
    [
        (0, 4, CutTo(4)),
        (10, 30, Wait("we are within the leader's range after all", logging.INFO)),
        (0, 10, Wait("we are within the leader's range after all", logging.INFO)),
        (11, 30, StartAt(11)),
        (30, 30, StartAt(30)),
    ],
)
def test_outside_of_the_leaders_range_its_bounds_decide(
    leader_start: int, leader_end: int, step: Step
) -> None:
    first, machine = answered(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert first is LOCATE
    assert not machine.is_ready(10**12)
    assert machine.on_located(leader_start, leader_end, Held([(3, 0)], 10), 100) == step
    assert machine.is_ready(200)


@pytest.mark.parametrize(
    ("ours", "diverging", "offset"),
    [
        ([(3, 0)], (3, 7), 7),  # the leader's part of the epoch is shorter
        ([(1, 0), (3, 4)], (1, 6), 4),  # our part of its last common epoch is shorter
        ([(1, 0), (3, 4)], (1, 2), 2),
        ([(1, 0), (3, 4)], (2, 8), 4),  # we never heard of epoch 2: back to the end of 1
        ([(1, 2), (3, 4)], (0, 1), 1),  # below all that we noted
        ([(3, 0)], (-1, 6), 6),
    ],
)
def test_a_diverging_log_is_cut(
    ours: list[tuple[int, int]], diverging: tuple[int, int], offset: int
) -> None:
    step, _ = answered(diverging=diverging, held=Held(ours, 10))
    assert step == CutTo(offset)


def test_a_leader_without_any_epoch_leaves_us_what_was_committed() -> None:
    assert where_to_cut(Held([(3, 0)], 10, high_watermark=6), -1, -1) == 6


@pytest.mark.parametrize("diverging", [(4, 20), (3, 10), (3, 11)])
def test_a_leader_that_parts_us_where_we_are_one_is_not_asked_at_once_again(
    diverging: tuple[int, int],
) -> None:
    step, machine = answered(diverging=diverging)
    assert isinstance(step, Wait)
    assert machine.state is State.DELAYED


def test_an_epoch_of_ours_that_wrote_nothing_is_forgotten() -> None:
    held = Held([(1, 0), (3, 10)], 10)
    step, _ = answered(diverging=(1, 10), held=held)
    assert step == CutTo(10)


@pytest.mark.parametrize(
    ("start", "end", "first", "last", "step"),
    [
        (0, 12, 12, 15, None),
        (0, 12, 14, 15, None),
        (12, 12, 10, 15, StartAt(10)),
        (0, 12, 10, 15, CutTo(10)),
        (0, 12, 10, 12, CutTo(10)),
        (0, 12, 10, 11, None),  # all of it is ours already: no leader sends that
    ],
)
def test_a_batch_that_holds_our_end_finds_room(
    start: int, end: int, first: int, last: int, step: Step | None
) -> None:
    assert make_room(Held([], end, start=start), first, last) == step


# -- two logs become one ------------------------------------------------------------------------

Epochs = list[int]
"""The epoch that wrote each offset."""


def held_of(log: Epochs) -> Held:
    entries = [(epoch, at) for at, epoch in enumerate(log) if at == 0 or log[at - 1] != epoch]
    return Held(entries, len(log))


@st.composite
def histories(draw: st.DrawFn) -> tuple[Epochs, Epochs]:
    """Two logs as leaders leave them: equal up to a point, then each with epochs of its own."""
    shared = sorted(draw(st.lists(st.integers(0, 6), max_size=8)))
    floor = shared[-1] if shared else 0
    owners = draw(st.lists(st.booleans(), min_size=8, max_size=8))
    logs: list[Epochs] = []
    for mine in (True, False):
        own = [floor + 1 + number for number, owner in enumerate(owners) if owner is mine]
        extra = sorted(draw(st.lists(st.sampled_from(own), max_size=8))) if own else []
        logs.append(shared + extra)
    return logs[0], logs[1]


@given(histories())
def test_any_two_logs_become_equal_within_a_few_rounds(logs: tuple[Epochs, Epochs]) -> None:
    leader, ours = logs
    machine = following(99)
    there = held_of(leader)
    there.epochs.assign(99, there.end)  # every leader notes where its own epoch begins
    for _ in range(12):
        held = held_of(ours)
        asked = machine.ask(held)
        assert isinstance(asked, Ask)
        known, end = there.epochs.end_offset_for(asked.last_epoch, there.end)
        if asked.last_epoch < 0 or (known == asked.last_epoch and end >= asked.offset):
            break
        step = machine.on_answer(asked, 0, (known, end), held, 0)
        assert isinstance(step, CutTo) and step.offset < len(ours)
        ours = ours[: step.offset]
    else:
        raise AssertionError("the logs never became one")
    assert leader[: len(ours)] == ours
    assert ours[: len(shared(*logs))] == shared(*logs)


def shared(one: Epochs, other: Epochs) -> Epochs:
    """What both logs have from the same leaders: none of it may be cut off."""
    common = []
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        common.append(left)
    return common

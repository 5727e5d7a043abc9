"""What stands beside a committed offset."""

from __future__ import annotations

import pytest

from penstock.patterns.notes import Notes, parse


@pytest.mark.parametrize(
    ("notes", "text"),
    [
        (Notes(), ""),
        (Notes(1, 40), "penstock-patterns lives=1 since=40"),
        (Notes(3, 0, {12: 2, 7: 1}), "penstock-patterns lives=3 since=0 7:1 12:2"),
        (Notes(0, 0, {7: 1}), "penstock-patterns lives=0 since=0 7:1"),
    ],
)
def test_notes_are_written_and_read_back(notes: Notes, text: str) -> None:
    assert notes.text() == text
    assert parse(text) == notes


@pytest.mark.parametrize(
    ("before", "offset", "after"),
    [
        (Notes(), 40, Notes(1, 40)),
        (Notes(1, 40), 40, Notes(2, 40)),
        (Notes(2, 40), 49, Notes(3, 40)),
        (Notes(2, 40), 50, Notes(1, 50)),
        (Notes(2, 40), 30, Notes(1, 30)),  # somebody has put the group back
        (Notes(3, 40, {41: 1, 45: 2}), 44, Notes(4, 40, {45: 2})),
    ],
)
def test_owners_in_a_row_are_counted_as_long_as_they_do_not_get_on(
    before: Notes, offset: int, after: Notes
) -> None:
    assert before.next_owner(offset, window=10) == after


@pytest.mark.parametrize(
    ("notes", "suspicious"),
    [(Notes(), False), (Notes(2, 0), False), (Notes(3, 0), True), (Notes(0, 0, {1: 1}), True)],
)
def test_suspicion_begins_when_it_happens_a_second_time(notes: Notes, suspicious: bool) -> None:
    assert notes.suspicious == suspicious


@pytest.mark.parametrize("text", [None, "", "somebody else's", "open", "penstock-patterns x:y :"])
def test_what_is_not_ours_says_nothing(text: str | None) -> None:
    assert parse(text) == Notes()


def test_notes_fit_into_what_servers_keep() -> None:
    begun = {2**63 - number: 100 for number in range(1, 10_000)}
    assert len(Notes(3, 2**63, begun).text()) < 4_096

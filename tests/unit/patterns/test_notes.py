"""What stands beside a committed offset."""

from __future__ import annotations

import pytest

from penstock.patterns.notes import Notes, parse


@pytest.mark.parametrize(
    ("notes", "text"),
    [
        (Notes(), ""),
        (Notes(True), "penstock-patterns open"),
        (Notes(True, {12: 2, 7: 1}), "penstock-patterns open 7:1 12:2"),
        (Notes(False, {7: 1}), "penstock-patterns 7:1"),
    ],
)
def test_notes_are_written_and_read_back(notes: Notes, text: str) -> None:
    assert notes.text() == text
    assert parse(text) == notes


@pytest.mark.parametrize("text", [None, "", "somebody else's", "open", "penstock-patterns x:y :"])
def test_what_is_not_ours_says_nothing(text: str | None) -> None:
    assert parse(text) == Notes()


def test_notes_fit_into_what_servers_keep() -> None:
    begun = {2**63 - number: 100 for number in range(1, 10_000)}
    assert len(Notes(True, begun).text()) < 4_096

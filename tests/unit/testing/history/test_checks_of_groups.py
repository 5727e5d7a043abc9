"""Groups: who may commit, and what a commit leaves behind."""

from __future__ import annotations

from penstock.testing.history import Generation
from penstock.testing.history.checks import groups
from tests.unit.testing.history.story import Story


def generation(story: Story, who: str, number: int, per_member: bool = False) -> None:
    story.client(who).note(
        Generation(group="g", member=who, generation=number, per_member=per_member)
    )


def test_a_position_is_what_was_committed_last() -> None:
    story = Story()
    story.committed(-1)
    story.commit("m", 5)
    story.committed(5)
    story.commit("m", 7)
    story.committed(7)
    assert story.names() == []


def test_a_commit_that_left_nothing_behind_is_noticed() -> None:
    story = Story()
    story.commit("m", 5)
    story.committed(-1)
    assert story.names() == [groups.POSITION]


def test_a_position_that_came_back_is_noticed() -> None:
    story = Story()
    story.commit("m", 5)
    story.commit("m", 7)
    story.committed(5)
    assert story.names() == [groups.POSITION]


def test_an_unknown_commit_may_come_at_any_time() -> None:
    story = Story()
    story.commit("m", 5, known=False)
    story.commit("m", 7)
    story.committed(7)
    story.committed(5)
    assert story.names() == []


def test_a_commit_that_failed_must_not_be_seen() -> None:
    story = Story()
    story.commit("m", 5)
    failed = story.commit("m", 9, known=False)
    story.client("m").failed(failed, "ILLEGAL_GENERATION")
    story.committed(9)
    assert story.names() == [groups.POSITION]


def test_a_commit_of_an_older_generation_must_fail() -> None:
    story = Story()
    generation(story, "m1", 1)
    generation(story, "m2", 2)
    story.commit("m1", 5, generation=1)
    assert story.names() == [groups.FENCED]


def test_a_commit_that_began_before_the_later_generation_may_succeed() -> None:
    story = Story()
    generation(story, "m1", 1)
    commit = story.commit("m1", 5, generation=1, known=False)
    generation(story, "m2", 2)
    story.client("m1").ok(commit)
    assert story.names() == []


def test_with_epochs_of_their_own_members_do_not_fence_each_other() -> None:
    story = Story()
    generation(story, "m1", 1, per_member=True)
    generation(story, "m2", 2, per_member=True)
    story.commit("m1", 5, generation=1)
    assert story.names() == []
    generation(story, "m1", 2, per_member=True)
    story.commit("m1", 6, generation=1)
    assert story.names() == [groups.FENCED]


def test_a_transactions_position_counts_when_it_is_committed() -> None:
    story = Story()
    story.commit("m", 5)
    story.commit("p", 8, transaction="x")
    story.committed(5)
    story.end("p", "x", commit=True)
    story.committed(5)  # its end may not have come to the group yet
    story.committed(8, stable=True)
    assert story.names() == []
    story.committed(5, stable=True)
    assert story.names() == [groups.POSITION]


def test_an_aborted_transactions_position_must_not_be_seen() -> None:
    story = Story()
    story.commit("p", 8, transaction="x")
    story.end("p", "x", commit=False)
    story.committed(8)
    assert story.names() == [groups.POSITION]

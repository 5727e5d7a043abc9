"""The history checker against a coordinator that does everything right, and one that does not.

Members commit, join and look up their group's position as chance has it: requests overlap, arrive
late or never, and answers are lost. Whatever comes of it is sound.
"""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.testing.history import Commit, Committed, Generation, History, Recorder, find
from penstock.testing.history.checks.groups import FENCED, POSITION

Step = tuple[str, int]
NOTHING = -1

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("write", "write", "begin", "take", "answer", "lose", "join", "look")),
        st.integers(0, 2),
    ),
    min_size=20,
    max_size=80,
)


class World:
    """One partition of one group with three members; the clock ticks with every note."""

    def __init__(self, per_member: bool) -> None:
        self.per_member = per_member
        self.position = NOTHING
        self.epochs = [1, 1, 1]
        """Which generation is each member's, as the coordinator sees it."""
        self.known = [1, 1, 1]
        clock = count().__next__
        self.members = [Recorder(f"member {number}", clock=clock) for number in range(3)]
        self.pending: dict[int, Commit] = {}
        self.taken: dict[int, bool] = {}
        self.offsets = count()

    def play(self, steps: list[Step]) -> History:
        for name, who in steps:
            getattr(self, name)(who)
        self.look(0)
        return History.of(*self.members)

    def begin(self, who: int) -> None:
        if who not in self.pending:
            commit = Commit(
                topic="t",
                partition=0,
                group="g",
                offset=next(self.offsets),
                member=self.members[who].client,
                generation=self.known[who],
            )
            self.pending[who] = self.members[who].begin(commit)

    def take(self, who: int) -> None:
        """The coordinator decides."""
        if who in self.pending and who not in self.taken:
            commit = self.pending[who]
            self.taken[who] = commit.generation == self.epochs[who]
            if self.taken[who]:
                self.position = commit.offset

    def answer(self, who: int) -> None:
        if who in self.taken:
            commit = self.pending.pop(who)
            if self.taken.pop(who):
                self.members[who].ok(commit)
            else:
                self.members[who].failed(commit, "ILLEGAL_GENERATION")

    def lose(self, who: int) -> None:
        """The answer, or the request."""
        if who in self.pending:
            self.members[who].unknown(self.pending.pop(who))
            self.taken.pop(who, None)

    def write(self, who: int) -> None:
        """From the beginning to the end, without anything in between."""
        self.begin(who)
        self.take(who)
        self.answer(who)

    def join(self, who: int) -> None:
        """A new generation: of the member, or of all, of which the others hear later."""
        began = self.members[who].now()
        if self.per_member:
            self.epochs[who] += 1
        else:
            self.epochs = [max(self.epochs) + 1] * 3
        self.known[who] = self.epochs[who]
        self.members[who].note(
            Generation(
                group="g",
                member=self.members[who].client,
                generation=self.known[who],
                per_member=self.per_member,
            ),
            began,
        )

    def look(self, who: int) -> None:
        began = self.members[who].now()
        position = Committed(topic="t", partition=0, group="g", offset=self.position)
        self.members[who].note(position, began)


@pytest.mark.parametrize("per_member", [False, True])
@given(steps=STEPS)
@settings(max_examples=200)
def test_nothing_is_found_in_what_a_faultless_coordinator_leads_to(
    per_member: bool, steps: list[Step]
) -> None:
    assert find(World(per_member).play(steps)) == []


@given(STEPS)
@settings(max_examples=200)
def test_a_position_that_nobody_committed_is_found(steps: list[Step]) -> None:
    world = World(per_member=False)
    history = world.play(steps)
    history.committed[-1].offset = next(world.offsets)
    assert {it.name for it in find(history)} == {POSITION}


@given(STEPS)
@settings(max_examples=200)
def test_a_commit_that_is_forgotten_is_found(steps: list[Step]) -> None:
    world = World(per_member=True)
    world.play(steps)
    for who in range(3):
        world.lose(who)
    world.write(0)  # known to have come after all the others that are known
    world.position = NOTHING
    world.look(1)
    assert {it.name for it in find(History.of(*world.members))} == {POSITION}


@pytest.mark.parametrize("per_member", [False, True])
@given(steps=STEPS)
@settings(max_examples=200)
def test_a_fenced_commit_that_is_taken_is_found(per_member: bool, steps: list[Step]) -> None:
    world = World(per_member)
    world.play(steps)
    late = 0
    assume(late not in world.pending)
    known = world.known[late]
    world.join(late if per_member else 1)
    world.known[late] = known
    world.begin(late)
    world.taken[late] = True
    world.answer(late)
    assert FENCED in {it.name for it in find(History.of(*world.members))}

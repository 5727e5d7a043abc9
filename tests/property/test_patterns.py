"""Whatever ends, fails, moves or crashes, and when: nothing is lost, no commit runs ahead, and
messages of a key keep their order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.patterns import Backoff
from penstock.patterns.desk import Busy, Failed, Handled, Rules
from tests.unit.patterns.stage import TOPIC, Stage

KEYS = st.sampled_from([b"a", b"b", b"c", None])
LOG = st.lists(KEYS, min_size=1, max_size=12)
RULES = st.builds(
    Rules,
    workers=st.integers(1, 4),
    in_flight_max=st.integers(1, 9),
    keep_order=st.booleans(),
    backoff=st.one_of(
        st.none(), st.builds(Backoff, first=st.floats(0, 3), tries=st.integers(1, 3))
    ),
    hold_max=st.sampled_from([1.0, float("inf")]),
    crashes_max=st.integers(1, 3),
)
OUTCOMES = st.sampled_from([Handled(), Failed("no"), Failed("no", final=True), Busy()])
PICK = st.integers(0, 100)


class Life(RuleBasedStateMachine):
    """The stage checks order, bounds and commits at every step; in the end all must be done."""

    @initialize(rules=RULES, logs=st.lists(LOG, min_size=1, max_size=2))
    def begin(self, rules: Rules, logs: list[list[bytes | None]]) -> None:
        self.commits = True
        self.it = Stage(rules, logs, batch=max(1, rules.in_flight_max // 2))

    @rule()
    def assign_and_fetch(self) -> None:
        for place in self.it.logs.keys() - self.it.position.keys():
            self.it.assign(place)
        self.it.fetch()

    @rule(pick=PICK, outcome=OUTCOMES)
    @precondition(lambda self: self.it.running)
    def end(self, pick: int, outcome: Handled | Failed | Busy) -> None:
        self.it.end(self.it.running[pick % len(self.it.running)], outcome)

    @rule(pick=PICK, good=st.booleans())
    @precondition(lambda self: self.it.under_way)
    def answer(self, pick: int, good: bool) -> None:
        self.it.answer(self.it.under_way[pick % len(self.it.under_way)], good=good)

    @rule(seconds=st.floats(0, 5))
    def advance(self, seconds: float) -> None:
        self.it.advance(seconds)

    @invariant()
    def commit(self) -> None:
        if hasattr(self, "it") and self.commits:
            self.it.commit()

    @rule(commits=st.booleans())
    def let_commits_wait(self, commits: bool) -> None:
        self.commits = commits

    @rule(pick=PICK, settle=st.booleans())
    def revoke(self, pick: int, settle: bool) -> None:
        place = (TOPIC, pick % len(self.it.logs))
        if place in self.it.position:
            self.it.revoke(place, settle=settle)

    @rule(pick=PICK)
    def lose(self, pick: int) -> None:
        self.it.lose((TOPIC, pick % len(self.it.logs)))

    @rule()
    def crash(self) -> None:
        self.it.begin()

    @rule()
    def drain(self) -> None:
        self.it.drain()

    def teardown(self) -> None:
        if hasattr(self, "it"):
            self.it.begin()
            self.it.drain()
            for place, log in self.it.logs.items():
                assert self.it.finished[place] == set(range(len(log)))


Life.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestLife = Life.TestCase

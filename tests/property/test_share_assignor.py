"""What the assignor of share groups promises, on groups of any shape, and Apache's own answers."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordination.group.consumer.assignors.wish import Partitions, Wish
from penstock.coordination.group.share.assigning import assign_simply
from tests.oracle import apache
from tests.stopwatch import cpu_seconds

CORPUS = Path(__file__).parent.parent / "data" / "assignors"
TOPICS = [bytes(15) + bytes([number]) for number in range(4)]

Ready = dict[bytes, frozenset[int]]


@st.composite
def groups(draw: st.DrawFn, alike: bool | None = None) -> tuple[dict[str, Wish], Ready]:
    """Members with wishes, and partitions that some of them have already."""
    numbers = st.frozensets(st.integers(0, 6), min_size=1)
    ready = {topic: draw(numbers) for topic in draw(st.sets(st.sampled_from(TOPICS)))}
    names = [f"member-{number}" for number in range(draw(st.integers(1, 7)))]
    same = draw(st.booleans()) if alike is None else alike
    some = st.frozensets(st.sampled_from(TOPICS))
    common = draw(some)
    members = {}
    for name in names:
        owned = {topic: draw(st.frozensets(st.integers(0, 6))) for topic in draw(some)}
        members[name] = Wish(
            common if same else draw(some), {topic: has for topic, has in owned.items() if has}
        )
    return members, ready


def holders(assigned: Mapping[str, Partitions]) -> Counter[tuple[bytes, int]]:
    """How many members have each partition."""
    return Counter(
        (topic, number)
        for topics in assigned.values()
        for topic, numbers in topics.items()
        for number in numbers
    )


def sizes(assigned: Mapping[str, Partitions]) -> list[int]:
    return sorted(sum(map(len, topics.values())) for topics in assigned.values())


@given(group=groups())
def test_every_partition_that_is_ready_and_wanted_goes_to_somebody_who_wants_it(
    group: tuple[dict[str, Wish], Ready],
) -> None:
    members, ready = group
    assigned = assign_simply(members, ready)
    assert assigned.keys() == members.keys()
    wanted = {topic for wish in members.values() for topic in wish.topics}
    due = {(topic, number) for topic in wanted for number in ready.get(topic, ())}
    assert holders(assigned).keys() == due
    for member, topics in assigned.items():
        assert topics.keys() <= set(members[member].topics)
        assert all(topics.values())


@given(group=groups(alike=True))
def test_nobody_has_nothing_where_all_want_the_same_and_something_is_ready(
    group: tuple[dict[str, Wish], Ready],
) -> None:
    members, ready = group
    assigned = assign_simply(members, ready)
    total = len(holders(assigned))
    sharing = -(-len(members) // total) if total else 0
    assert max(holders(assigned).values(), default=0) <= sharing
    least, most = (bound(sizes(assigned)) for bound in (min, max))
    assert most <= -(-sharing * total // len(members))
    assert least >= min(total, 1)


@given(group=groups())
def test_there_is_nothing_to_do_once_it_is_done(group: tuple[dict[str, Wish], Ready]) -> None:
    members, ready = group
    first = assign_simply(members, ready)
    settled = {name: wish._replace(owned=first[name]) for name, wish in members.items()}
    assert assign_simply(settled, ready) == first


@given(group=groups())
def test_the_order_of_what_is_told_means_nothing(group: tuple[dict[str, Wish], Ready]) -> None:
    members, ready = group
    backwards = dict(reversed(members.items())), dict(reversed(ready.items()))
    assert assign_simply(members, ready) == assign_simply(*backwards)


def _partitions(named: dict[str, list[int]]) -> dict[bytes, frozenset[int]]:
    return {TOPICS[int(topic)]: frozenset(numbers) for topic, numbers in named.items()}


def _case(case: dict[str, Any]) -> tuple[dict[str, Wish], Ready, dict[str, Partitions]]:
    members = {
        name: Wish(frozenset(TOPICS[it] for it in said["topics"]), _partitions(said["owned"]))
        for name, said in case["members"].items()
    }
    gets: dict[str, Partitions] = {
        name: _partitions(said["gets"]) for name, said in case["members"].items()
    }
    return members, _partitions(case["ready"]), gets


def _corpus(exact: bool) -> list[dict[str, Any]]:
    """Cases whose answer does not depend on the order of Java's hash tables, or those that do."""
    cases: list[dict[str, Any]] = json.loads((CORPUS / "simple.json").read_text())
    return [case for case in cases if (case["kind"] == 0 or not case["alike"]) is exact]


def test_the_assignor_agrees_with_apache() -> None:
    cases = _corpus(exact=True)
    assert len(cases) > 100
    for case in cases:
        members, ready, theirs = _case(case)
        assert assign_simply(members, ready) == theirs


def test_the_assignor_is_as_even_and_as_calm_as_apache_where_all_want_several_topics() -> None:
    cases = _corpus(exact=False)
    assert len(cases) > 50
    ours_kept = theirs_kept = 0
    for case in cases:
        members, ready, theirs = _case(case)
        ours = assign_simply(members, ready)
        assert sizes(ours) == sizes(theirs)
        assert sorted(holders(ours).values()) == sorted(holders(theirs).values())
        ours_kept += _kept(members, ours)
        theirs_kept += _kept(members, theirs)
    assert ours_kept > 0.9 * theirs_kept


def _kept(members: Mapping[str, Wish], assigned: Mapping[str, Partitions]) -> int:
    return sum(
        len(numbers & wish.owned.get(topic, frozenset()))
        for member, wish in members.items()
        for topic, numbers in assigned[member].items()
    )


@pytest.mark.java
def test_the_corpus_is_what_apache_says_today() -> None:
    made = subprocess.run(
        [*apache.java(options=apache.JVM_SHORT), str(CORPUS / "SimpleCorpus.java")],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert json.loads(made.stdout) == json.loads((CORPUS / "simple.json").read_text())


def test_the_assignor_is_near_linear() -> None:
    """Ten times the partitions take about ten times as long, and not a hundred times."""
    short, long = (_seconds(size) for size in (1_000, 10_000))
    assert long < 40 * max(short, 0.002), f"{short} s, {long} s"


def _seconds(partitions: int) -> float:
    ready = {topic: frozenset(range(partitions // len(TOPICS))) for topic in TOPICS}
    members = {f"m{number}": Wish(frozenset(TOPICS), {}) for number in range(200)}
    return cpu_seconds(lambda: assign_simply(members, ready))

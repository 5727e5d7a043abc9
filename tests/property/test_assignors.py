"""The assignors' promises, on groups of any shape, and the same answers as Apache's on many."""

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

from penstock.coordination.group.consumer.assignors import ASSIGNORS, assignor_names
from penstock.coordination.group.consumer.assignors.range import assign_ranges
from penstock.coordination.group.consumer.assignors.uniform import assign_uniformly
from penstock.coordination.group.consumer.assignors.wish import Partitions, Wish
from tests.oracle import apache
from tests.stopwatch import cpu_seconds

CORPUS = Path(__file__).parent.parent / "data" / "assignors"

TOPICS = [bytes(15) + bytes([number]) for number in range(1, 7)]


@st.composite
def groups(draw: st.DrawFn, alike: bool | None = None) -> tuple[dict[str, Wish], dict[bytes, int]]:
    """Members with wishes, and partitions that some of them have already."""
    counts = {topic: draw(st.integers(1, 12)) for topic in draw(st.sets(st.sampled_from(TOPICS)))}
    names = [f"member-{number}" for number in range(draw(st.integers(1, 9)))]
    same = draw(st.booleans()) if alike is None else alike
    some = st.frozensets(st.sampled_from(sorted(counts))) if counts else st.just(frozenset())
    wanted = {name: frozenset(counts) if same else draw(some) for name in names}
    owned: dict[str, dict[bytes, set[int]]] = {name: {} for name in names}
    for topic, count in counts.items():
        for number in range(count):
            owner = draw(st.sampled_from([None, *names]))
            if owner is not None:
                owned[owner].setdefault(topic, set()).add(number)
    statics = draw(st.sets(st.sampled_from(names)))
    return {
        name: Wish(
            wanted[name],
            {topic: frozenset(has) for topic, has in owned[name].items()},
            f"instance-{name}" if name in statics else None,
        )
        for name in names
    }, counts


def sizes(assigned: Mapping[str, Partitions]) -> dict[str, int]:
    return {member: sum(map(len, topics.values())) for member, topics in assigned.items()}


def kept(members: Mapping[str, Wish], assigned: Mapping[str, Partitions]) -> int:
    return sum(
        len(numbers & wish.owned.get(topic, frozenset()))
        for member, wish in members.items()
        for topic, numbers in assigned[member].items()
    )


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(group=groups())
def test_every_wanted_partition_goes_to_one_member_that_wants_it(
    name: str, group: tuple[dict[str, Wish], dict[bytes, int]]
) -> None:
    members, counts = group
    assigned = ASSIGNORS[name](members, counts)
    owners = Counter(
        (topic, number)
        for topics in assigned.values()
        for topic, numbers in topics.items()
        for number in numbers
    )
    wanted = {topic for wish in members.values() for topic in wish.topics}
    assert owners == Counter((it, number) for it in wanted for number in range(counts[it]))
    for member, topics in assigned.items():
        assert topics.keys() <= set(members[member].topics)
        assert all(topics.values())


@given(group=groups(alike=True))
def test_uniform_shares_differ_by_one_at_most_where_all_want_the_same(
    group: tuple[dict[str, Wish], dict[bytes, int]],
) -> None:
    loads = sizes(assign_uniformly(*group)).values()
    assert max(loads) - min(loads) <= 1


@given(group=groups(alike=True))
def test_uniform_moves_only_what_is_above_a_share(
    group: tuple[dict[str, Wish], dict[bytes, int]],
) -> None:
    members, counts = group
    assigned = assign_uniformly(members, counts)
    least, extra = divmod(sum(counts.values()), len(members))
    before = sorted((sum(map(len, it.owned.values())) for it in members.values()), reverse=True)
    best = sum(
        min(has, least + (place < extra and has > least)) for place, has in enumerate(before)
    )
    assert kept(members, assigned) == best


@given(group=groups(alike=False))
def test_uniform_leaves_nobody_two_behind_somebody_who_could_give(
    group: tuple[dict[str, Wish], dict[bytes, int]],
) -> None:
    members, counts = group
    assigned = assign_uniformly(members, counts)
    loads = sizes(assigned)
    for giver, topics in assigned.items():
        for taker, wish in members.items():
            if set(topics) & set(wish.topics):
                assert loads[giver] - loads[taker] < 2


@given(group=groups())
def test_uniform_has_nothing_to_do_once_it_is_done(
    group: tuple[dict[str, Wish], dict[bytes, int]],
) -> None:
    members, counts = group
    first = assign_uniformly(members, counts)
    settled = {name: wish._replace(owned=first[name]) for name, wish in members.items()}
    assert assign_uniformly(settled, counts) == first


@given(group=groups())
def test_range_gives_neighbours_and_cuts_like_topics_alike(
    group: tuple[dict[str, Wish], dict[bytes, int]],
) -> None:
    members, counts = group
    assigned = assign_ranges(members, counts)
    for topics in assigned.values():
        for numbers in topics.values():
            assert max(numbers) - min(numbers) == len(numbers) - 1
    takers = {
        topic: frozenset(name for name, wish in members.items() if topic in wish.topics)
        for topic in counts
    }
    for one in counts:
        for other in counts:
            if counts[one] == counts[other] and takers[one] == takers[other]:
                for topics in assigned.values():
                    assert topics.get(one) == topics.get(other)


def _partitions(named: dict[str, list[int]]) -> dict[bytes, frozenset[int]]:
    return {TOPICS[int(topic) - 1]: frozenset(numbers) for topic, numbers in named.items()}


def _case(case: dict[str, Any]) -> tuple[dict[str, Wish], dict[bytes, int], dict[str, Partitions]]:
    members = {
        name: Wish(
            frozenset(TOPICS[topic - 1] for topic in it["topics"]),
            _partitions(it["owned"]),
            it["instance"],
        )
        for name, it in case["members"].items()
    }
    counts = {TOPICS[int(topic) - 1]: count for topic, count in case["counts"].items()}
    return members, counts, {name: _partitions(it["gets"]) for name, it in case["members"].items()}


def _corpus(assignor: str, alike: bool | None = None) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((CORPUS / "corpus.json").read_text())
    return [
        case
        for case in cases
        if case["assignor"] == assignor and (alike is None or case["alike"] is alike)
    ]


def test_range_agrees_with_apache() -> None:
    cases = _corpus("range")
    assert len(cases) > 50
    for case in cases:
        members, counts, theirs = _case(case)
        assert assign_ranges(members, counts) == theirs


def test_uniform_agrees_with_apache_where_all_want_the_same() -> None:
    cases = _corpus("uniform", alike=True)
    assert len(cases) > 25
    for case in cases:
        members, counts, theirs = _case(case)
        assert assign_uniformly(members, counts) == theirs


def test_uniform_is_as_even_and_as_calm_as_apache_where_wishes_differ() -> None:
    cases = _corpus("uniform", alike=False)
    assert len(cases) > 25
    ours_kept = theirs_kept = 0
    for case in cases:
        members, counts, theirs = _case(case)
        ours = assign_uniformly(members, counts)
        assert sorted(sizes(ours).values()) == sorted(sizes(theirs).values())
        ours_kept += kept(members, ours)
        theirs_kept += kept(members, theirs)
    assert ours_kept >= theirs_kept


@pytest.mark.java
def test_the_corpus_is_what_apache_says_today() -> None:
    source = CORPUS / "AssignorCorpus.java"
    made = subprocess.run(
        [*apache.java(options=apache.JVM_SHORT), str(source)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert json.loads(made.stdout) == json.loads((CORPUS / "corpus.json").read_text())


def test_assignors_are_near_linear() -> None:
    """Ten times the partitions take about ten times as long, and not a hundred times."""
    for assign in ASSIGNORS.values():
        for alike in (True, False):
            short, long = (_seconds(assign, alike, size) for size in (2_000, 20_000))
            assert long < 40 * max(short, 0.002), f"{assign.__name__}: {short} s, {long} s"


def _seconds(assign: Any, alike: bool, partitions: int) -> float:
    counts = dict.fromkeys(TOPICS, partitions // len(TOPICS))
    members = {
        f"m{number}": Wish(frozenset(TOPICS if alike or number % 2 else TOPICS[:3]), {})
        for number in range(partitions // 100)
    }
    return cpu_seconds(lambda: assign(members, counts))


def test_configured_assignors_go_by_name_or_by_apaches_class() -> None:
    package = "org.apache.kafka.coordinator.group.assignor"
    assert assignor_names(("uniform", "range")) == ("uniform", "range")
    assert assignor_names((f"{package}.RangeAssignor",)) == ("range",)
    assert assignor_names(("com.example.Mine", "range")) == ("range",)
    assert assignor_names(("com.example.Mine",)) == ("uniform", "range")

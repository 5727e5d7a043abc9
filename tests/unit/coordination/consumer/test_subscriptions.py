"""What a group wants, counted; and counted once where many members want the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordination.group.consumer.member import Member
from penstock.coordination.group.consumer.subscriptions import Resolved, Subscriptions
from tests.unit.coordination.consumer.stage import Stage, topic_id

TOPICS = ("a", "b", "c")
WISHES = st.builds(
    lambda topics, regex: Member("m", topics=topics, regex=regex),
    st.frozensets(st.sampled_from(TOPICS)),
    st.sampled_from(("", "x.*", "y.*", None)),
)


def _counted(members: list[Member]) -> Subscriptions:
    fresh = Subscriptions()
    for member in members:
        fresh.replace(None, member)
    return fresh


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | WISHES), max_size=30))
def test_counts_are_those_of_the_members_that_are_left(
    changes: list[tuple[int, Member | None]],
) -> None:
    members: dict[int, Member] = {}
    counted = Subscriptions()
    for place, new in changes:
        old = members.pop(place, None)
        if new is not None:
            members[place] = new
        foreseen = counted.after([(old, new)])
        counted.replace(old, new)
        assert foreseen.topics == counted.topics
        fresh = _counted(list(members.values()))
        for it in (counted, foreseen):
            assert (it.names, it.regexes) == (fresh.names, fresh.regexes)
            assert {key: count for key, (_, count) in it.wishes.items()} == {
                key: count for key, (_, count) in fresh.wishes.items()
            }
        wanted = {name for member in members.values() for name in member.topics}
        assert {name for name in TOPICS if counted.wants(name)} == wanted


def test_members_that_want_the_same_keep_one_set_of_names() -> None:
    stage = Stage()
    stage.topic("t", 6)
    stage.join("a", "t", "u")
    stage.join("b", "u", "t")
    members = stage.group.members
    assert members["a"].topics is members["b"].topics
    stage.restart()
    members = stage.group.members
    assert members["a"].topics is members["b"].topics


def test_what_an_expression_stands_for_is_not_copied_for_each_member() -> None:
    counted = Subscriptions()
    found = Resolved(frozenset(TOPICS), 1, 1)
    counted.resolved["x.*"] = found
    assert counted.topics_of(Member("m", regex="x.*")) is found.topics
    both = Member("m", topics=frozenset(["d"]), regex="x.*")
    assert counted.topics_of(both) == {*TOPICS, "d"}


def test_ids_of_topics_are_found_anew_when_topics_change() -> None:
    stage = Stage()
    around = stage.shard.consumers
    names = frozenset(["t", "u"])
    assert around.topic_ids(names) == frozenset()
    stage.topic("t", 1)
    assert around.topic_ids(names) == {topic_id("t")}
    stage.topic("u", 1)
    known = around.topic_ids(names)
    assert known == {topic_id("t"), topic_id("u")}
    assert around.topic_ids(frozenset(["u", "t"])) is known
    assert around.topic_ids(names) is known
    stage.delete_topic("t")
    assert around.topic_ids(names) == {topic_id("u")}

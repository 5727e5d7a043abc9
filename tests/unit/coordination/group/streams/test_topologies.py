"""What topologies need of the topics around them."""

from __future__ import annotations

import pytest

from penstock.coordination.group.consumer.refusal import Refusal
from penstock.coordination.group.streams.checks import check_topology
from penstock.coordination.group.streams.configuring import Configured, configure
from penstock.coordination.group.streams.status import StatusCode
from penstock.coordination.group.streams.topology import topology_of
from penstock.metadata.topics import TopicsImage
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.streams_group_heartbeat import Subtopology, Topology
from tests.unit.coordination.group.streams.applications import (
    application,
    internal,
    stateless,
    subtopology,
    word_count,
)
from tests.unit.coordination.group.streams.stage import StreamsStage


def topics(**partitions: int) -> TopicsImage:
    stage = StreamsStage()
    for name, count in partitions.items():
        stage.topic(name.replace("_", "-"), count)
    return stage.image.topics


def fit(topology: Topology, **partitions: int) -> Configured:
    assert check_topology(topology) is None
    configured = configure(topology_of(topology), topics(**partitions))
    assert isinstance(configured, Configured), configured
    return configured


def unfit(topology: Topology, **partitions: int) -> tuple[StatusCode, str]:
    problem = fit(topology, **partitions).problem
    assert problem is not None
    return problem


def test_there_are_as_many_tasks_as_the_largest_input_has_partitions() -> None:
    configured = fit(stateless("a", "b"), a=2, b=5)
    assert configured.is_ready
    assert configured.work["0"].tasks == 5


def test_a_repartition_topic_is_as_large_as_what_is_handed_on() -> None:
    configured = fit(word_count("lines"), lines=6)
    assert configured.counts == {"lines-handed-on": 6, "lines-changelog": 6}
    assert [it.tasks for it in configured.work.values()] == [6, 6]
    assert [it.stateful for it in configured.work.values()] == [False, True]


def test_counts_are_handed_on_along_a_chain_in_whatever_order_it_is_told() -> None:
    chain = [
        subtopology("2", reads=[internal("y")], writes=["z"]),
        subtopology("1", reads=[internal("x")], writes=["y"]),
        subtopology("3", reads=[internal("z")], changelogs=[internal("kept")]),
        subtopology("0", "source", writes=["x"]),
    ]
    configured = fit(application(*chain), source=7)
    assert configured.counts == {"x": 7, "y": 7, "z": 7, "kept": 7}


def test_a_chain_of_ten_thousand_takes_no_time_to_speak_of() -> None:
    links = [
        subtopology(f"{at:05}", reads=[internal(f"t{at + 1}")], writes=[f"t{at}"])
        for at in range(9_998)
    ]
    first = subtopology("z", "source", writes=["t9998"])
    assert fit(application(*links, first), source=3).counts["t0"] == 3


def test_an_application_with_more_tasks_than_anybody_could_assign_is_not_begun_with() -> None:
    many = [subtopology(f"{at:05}", "source") for at in range(10_000)]
    code, what = unfit(application(*many), source=1_000)
    assert code == StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert "10000000 tasks" in what
    few = application(*many[:50])
    assert fit(few, source=1_000).is_ready


def test_topics_of_an_application_that_cannot_run_are_not_made() -> None:
    topology = application(
        subtopology("0", "source", writes=["x"]),
        subtopology("1", reads=[internal("x", 2**31 - 1)]),
    )
    assert not fit(topology, source=1).missing


def test_an_application_says_how_many_partitions_a_repartition_topic_has() -> None:
    topology = application(
        subtopology("0", "source", writes=["x"]), subtopology("1", reads=[internal("x", 9)])
    )
    assert fit(topology, source=2).counts == {"x": 9}
    assert fit(topology, source=2).work["1"].tasks == 9


def test_what_is_joined_must_have_as_many_partitions() -> None:
    joined = application(subtopology("0", "a", "b", together=[((0, 1), ())]))
    assert fit(joined, a=3, b=3).is_ready
    code, words = unfit(joined, a=3, b=4)
    assert code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert "a (3), b (4)" in words


def test_a_repartition_topic_follows_the_topic_that_it_is_joined_with() -> None:
    joined = application(
        subtopology("0", "few", writes=["x"]),
        subtopology("1", "many", reads=[internal("x")], together=[((0,), (0,))]),
    )
    assert fit(joined, few=2, many=8).counts == {"x": 8}


def test_a_repartition_topic_whose_size_is_said_must_fit_what_it_is_joined_with() -> None:
    joined = application(
        subtopology("0", "few", writes=["x"]),
        subtopology("1", "many", reads=[internal("x", 3)], together=[((0,), (0,))]),
    )
    code, words = unfit(joined, few=2, many=8)
    assert code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert "8 partitions" in words and "x (3)" in words


def test_repartition_topics_that_are_joined_have_the_size_that_one_of_them_says() -> None:
    def joined(first: int, second: int) -> Topology:
        return application(
            subtopology("0", "few", writes=["x"]),
            subtopology("1", "many", writes=["y"]),
            subtopology(
                "2", reads=[internal("x", first), internal("y", second)], together=[((), (0, 1))]
            ),
        )

    assert fit(joined(0, 0), few=2, many=5).counts == {"x": 5, "y": 5}
    assert fit(joined(3, 0), few=2, many=5).counts == {"x": 3, "y": 3}
    assert unfit(joined(3, 4), few=2, many=5)[0] is StatusCode.INCORRECTLY_PARTITIONED_TOPICS


def test_groups_of_joined_topics_do_not_bind_each_other() -> None:
    topology = application(
        subtopology("0", "source", writes=["x", "y"]),
        subtopology("1", reads=[internal("x", 3)], together=[((), (0,))]),
        subtopology("2", reads=[internal("y", 5)], together=[((), (0,))]),
    )
    assert fit(topology, source=2).counts == {"x": 3, "y": 5}


def test_an_internal_topic_that_is_there_must_have_the_right_size() -> None:
    there = {"lines": 4, "lines_handed_on": 4}
    assert list(fit(word_count("lines"), **there).missing) == ["lines-changelog"]
    assert fit(word_count("lines"), **there, lines_changelog=4).is_ready
    code, words = unfit(word_count("lines"), **there, lines_changelog=3)
    assert code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert "lines-changelog has 3 partitions and should have 4" in words


def test_missing_source_topics_are_named_and_not_all_of_very_many() -> None:
    assert unfit(stateless("b", "a", "c"), c=1) == (
        StatusCode.MISSING_SOURCE_TOPICS,
        "There are no such source topics: a, b.",
    )
    many = unfit(stateless(*(f"t{number:03}" for number in range(100))))
    assert many[1].endswith("t009 and 90 more.")


CIRCLE = application(
    subtopology("0", reads=[internal("x")], writes=["y"]),
    subtopology("1", reads=[internal("y")], writes=["x"]),
)
UNWRITTEN = application(subtopology("0", "source", reads=[internal("x")]))
NO_INPUT = application(subtopology("0", changelogs=[internal("kept")]))


@pytest.mark.parametrize("topology", [CIRCLE, UNWRITTEN, NO_INPUT])
def test_nothing_can_run_a_topology_whose_topics_have_no_beginning(topology: Topology) -> None:
    refusal = configure(topology_of(topology), topics(source=1))
    assert isinstance(refusal, Refusal)
    assert refusal.error == ErrorCode.STREAMS_INVALID_TOPOLOGY


def broken(**fields: object) -> Subtopology:
    return subtopology("0", "source", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        (application(), "at least one"),
        (application(broken(), broken()), "two subtopologies 0"),
        (application(broken(changelogs=[internal("c", 2)])), "one partition for each task"),
        (application(broken(changelogs=[internal("c"), internal("c")])), "described twice"),
        (application(broken(reads=[internal("x", -1)])), "cannot be"),
        (application(broken(together=[((1,), ())])), "names no topic"),
        (application(broken(together=[((-1,), ())])), "names no topic"),
        (application(broken(together=[((), (0,))])), "names no topic"),
        (application(*(subtopology(f"{it}", "t") for it in range(10_001))), "at most 10000"),
    ],
)
def test_topologies_that_make_no_sense_are_refused_before_anybody_looks_at_topics(
    topology: Topology, words: str
) -> None:
    refusal = check_topology(topology)
    assert refusal is not None
    assert refusal.error == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert words in refusal.message


def test_a_topology_has_an_epoch() -> None:
    refusal = check_topology(application(subtopology("0", "source"), epoch=-1))
    assert refusal is not None
    assert refusal.error == ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH

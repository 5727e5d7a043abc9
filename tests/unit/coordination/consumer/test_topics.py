"""Subscriptions, by name and by regular expression, and topics that change under them."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from penstock.coordination.group.consumer.hashing import group_hash, topic_hash
from penstock.coordination.group.consumer.regexes import (
    REFRESH_MS_MIN,
    RESOLUTION_MS_MAX,
    RESOLUTION_SECONDS_MAX,
    Resolution,
    compile_regex,
    on_resolved,
)
from penstock.metadata.cluster import ClusterImage
from penstock.metadata.image import MetadataImage
from penstock.metadata.topics import PartitionImage, TopicImage, TopicsImage
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.metadata_records import PartitionRecord, TopicRecord
from tests.unit.coordination.consumer.stage import GROUP_ID, Stage, topic_id


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.topic("t", 2)
    return stage


def test_new_partitions_are_found_with_the_next_heartbeat(stage: Stage) -> None:
    stage.join("a", "t")
    stage.topic("t", 5, first=2)
    assert stage.say("a", 2).member_epoch == 3
    assert stage.held("a") == {"t": [0, 1, 2, 3, 4]}


def test_a_topic_may_come_later_than_its_subscription(stage: Stage) -> None:
    stage.join("a", "later")
    stage.settle()
    assert stage.held("a") == {}
    stage.topic("later", 1)
    stage.settle()
    assert stage.held("a") == {"later": [0]}


def test_a_deleted_topic_is_taken_away(stage: Stage) -> None:
    stage.topic("u", 1)
    stage.join("a", "t", "u")
    stage.delete_topic("t")
    stage.settle()
    assert stage.held("a") == {"u": [0]}
    assert stage.group.target["a"] == {topic_id("u"): frozenset({0})}


def test_a_deleted_topic_is_noticed_by_a_group_that_has_looked_at_its_topics(
    stage: Stage,
) -> None:
    stage.topic("u", 1)
    stage.join("a", "t", "u")
    stage.settle()
    assert not stage.group.must_check_topics
    stage.delete_topic("u")
    stage.settle()
    assert stage.held("a") == {"t": [0, 1]}


def test_topics_of_others_do_not_matter(stage: Stage) -> None:
    stage.join("a", "t")
    stage.settle()
    stage.topic("other", 3)
    written = len(stage.log)
    stage.say("a", 2)
    assert len(stage.log) == written


def test_what_a_member_no_longer_wants_is_taken_away_at_once(stage: Stage) -> None:
    stage.topic("u", 1)
    stage.join("a", "t", "u")
    answer = stage.say("a", 2, subscribed_topic_names=["u"])
    assert [it.topic_id for it in answer.assignment.topic_partitions] == [topic_id("u")]
    assert answer.member_epoch == 2
    assert stage.say("a", 2, {"u": [0]}).member_epoch == 3


def test_offsets_of_wanted_topics_are_in_use(stage: Stage) -> None:
    stage.topic("logs-1", 1)
    stage.join("a", "t")
    stage.say("b", 0, subscribed_topic_regex="logs-.*")
    assert stage.group.subscribes_to("t")
    assert stage.group.subscribes_to("logs-1")
    assert not stage.group.subscribes_to("u")


# -- regular expressions --------------------------------------------------------------------------


def test_an_expression_stands_for_the_topics_that_it_matches_as_a_whole(stage: Stage) -> None:
    stage.topic("t2", 1)
    stage.topic("at", 1)
    joined = stage.say("a", 0, subscribed_topic_regex="t[0-9]?")
    assert joined.member_epoch == 1 and not joined.assignment.topic_partitions
    stage.settle()
    assert stage.held("a") == {"t": [0, 1], "t2": [0]}


@pytest.mark.parametrize("regex", ["a(b", "[a", "a**", "(?=x)", "(?<!x)y", r"(a)\1", "x{1001}"])
def test_what_re2_does_not_understand_is_refused(stage: Stage, regex: str) -> None:
    answer = stage.say("a", 0, subscribed_topic_regex=regex)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert regex in answer.error_message
    assert GROUP_ID not in stage.shard.groups


@pytest.mark.parametrize(
    "regex",
    ["(x+x+)+y", "(a|aa)*b", "(.*)*" * 500, "(" * 900 + "a" + ")" * 900, "(.{1,20}){1,20}" * 2],
)
def test_expressions_that_others_never_come_back_from_take_no_time(regex: str) -> None:
    names = dict.fromkeys(["x" * 249, "a" * 249, "xa" * 124])
    begun = time.process_time()
    found = Resolution("g", (regex,), names, 1, 1).run()
    assert time.process_time() - begun < 2
    assert set(found) == {regex}


def test_an_expression_that_would_take_much_memory_is_refused(stage: Stage) -> None:
    for regex in ("((a{100}){100}){100}", r"\pL{1000}" * 50, "(a{1,30}){1,30}" * 1000):
        assert isinstance(compile_regex(regex), str)
        answer = stage.say("a", 0, subscribed_topic_regex=regex)
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_an_expression_stands_for_topics_that_its_member_may_know_of(stage: Stage) -> None:
    stage.topic("t-hidden", 1)
    stage.sees = lambda name: "hidden" not in name
    stage.say("a", 0, subscribed_topic_regex="t.*")
    stage.settle()
    assert stage.held("a") == {"t": [0, 1]}
    stage.say("b", 0, subscribed_topic_regex=".*hidden")
    stage.settle()
    assert not stage.held("b")


@pytest.mark.parametrize("is_classic", [False, True])
def test_whoever_has_expressions_looked_at_again_sees_for_all(
    stage: Stage, is_classic: bool
) -> None:
    stage.topic("t-hidden", 1)
    stage.say("a", 0, subscribed_topic_regex="t.*")
    stage.settle()
    assert set(stage.held("a")) == {"t", "t-hidden"}
    stage.topic("t-new", 1)
    stage.mono += REFRESH_MS_MIN + 1
    stage.sees = lambda name: "hidden" not in name
    if is_classic:
        stage.classic_join("", "u")
    else:
        stage.join("b", "u")
    assert stage.group.subscriptions.resolved["t.*"].topics == {"t", "t-new"}


def test_new_topics_are_found_by_expressions(stage: Stage) -> None:
    stage.say("a", 0, subscribed_topic_regex="t.*")
    stage.settle()
    stage.topic("t-new", 1)
    stage.settle()
    assert "t-new" not in stage.held("a")  # looked at a moment ago
    stage.mono += REFRESH_MS_MIN + 1
    stage.settle()
    assert stage.held("a") == {"t": [0, 1], "t-new": [0]}


def test_expressions_are_looked_at_now_and_then_even_if_nothing_changed(stage: Stage) -> None:
    stage.say("a", 0, subscribed_topic_regex="t.*")
    stage.settle()
    first = stage.group.subscriptions.resolved["t.*"].timestamp
    stage.mono += stage.settings.consumer_regex_refresh_ms
    stage.say("a", 2)
    assert stage.group.subscriptions.resolved["t.*"].timestamp == first
    epoch = stage.group.epoch
    stage.mono += 1
    stage.say("a", 2)
    assert stage.group.subscriptions.resolved["t.*"].timestamp > first
    assert stage.group.epoch == epoch


def test_only_one_resolution_runs_at_a_time_and_a_lost_one_is_made_up_for(stage: Stage) -> None:
    stage.resolves = False
    stage.say("a", 0, subscribed_topic_regex="t.*")
    assert len(stage.errands) == 1
    stage.say("a", 1)
    stage.errands.clear()  # lost
    stage.say("a", 1)
    assert not stage.errands
    stage.mono += RESOLUTION_MS_MAX
    stage.say("a", 1)
    assert len(stage.errands) == 1


def test_what_takes_too_long_is_given_up_and_tried_again_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = "penstock.coordination.group.consumer.regexes.MATCHING_SECONDS_MAX"
    with monkeypatch.context() as slow:
        slow.setattr(limit, -1.0)
        stage.say("a", 0, subscribed_topic_regex="t.*")
        stage.say("a", 1)
        assert not stage.group.subscriptions.resolved
    stage.settle()
    assert not stage.group.subscriptions.resolved
    stage.mono += RESOLUTION_MS_MAX
    stage.settle()
    assert stage.held("a") == {"t": [0, 1]}


def test_a_group_with_many_slow_expressions_gives_way_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = "penstock.coordination.group.consumer.regexes"
    ticks = itertools.count()
    monkeypatch.setattr(f"{here}.monotonic", lambda: float(next(ticks)))
    names = dict.fromkeys(["t", "u"])
    regexes = tuple(f"t{number}*" for number in range(1000))
    found = Resolution("g", regexes, names, 1, 1).run()
    assert set(found) == set(regexes)
    assert 0 < sum(it is not None for it in found.values()) < RESOLUTION_SECONDS_MAX
    assert next(ticks) < 2 * RESOLUTION_SECONDS_MAX + len(regexes)


def test_what_was_left_over_comes_first_the_next_time(stage: Stage) -> None:
    stage.resolves = False
    stage.say("a", 0, subscribed_topic_regex="t.*")
    stage.resolve()
    stage.mono += REFRESH_MS_MIN + 1
    stage.say("b", 0, subscribed_topic_regex="u.*")
    assert stage.errands[-1].regexes == ("u.*", "t.*")


def test_what_the_log_does_not_take_is_not_tried_again_at_once(stage: Stage) -> None:
    stage.resolves = False
    stage.say("a", 0, subscribed_topic_regex="t.*")
    stage.refusing = ErrorCode.UNKNOWN_SERVER_ERROR
    stage.resolve()
    stage.refusing = None
    stage.say("a", 1)
    assert not stage.errands
    stage.mono += RESOLUTION_MS_MAX
    stage.say("a", 1)
    assert len(stage.errands) == 1


def test_a_heartbeat_that_the_log_refuses_does_not_put_resolution_off(stage: Stage) -> None:
    stage.join("a", "t")
    stage.refusing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.say("a", 2, subscribed_topic_regex="t.*") is None
    stage.refusing = None
    stage.say("a", 2, subscribed_topic_regex="t.*", subscribed_topic_names=[])
    stage.settle()
    assert "t.*" in stage.group.subscriptions.resolved


def test_a_late_answer_about_a_group_that_is_gone_is_forgotten(stage: Stage) -> None:
    stage.resolves = False
    stage.say("a", 0, subscribed_topic_regex="t.*")
    stage.say("a", -1)
    stage.step(lambda _, out: stage.group.delete(out))
    assert GROUP_ID not in stage.shard.groups
    written = len(stage.log)
    stage.resolve()
    assert len(stage.log) == written


def test_an_expression_that_nobody_uses_any_more_is_forgotten(stage: Stage) -> None:
    stage.topic("u", 1)
    stage.say("a", 0, subscribed_topic_regex="t.*")
    stage.say("b", 0, subscribed_topic_regex="t.*")
    stage.say("b", -1)
    assert "t.*" in stage.group.subscriptions.resolved
    stage.say("a", stage.group.members["a"].epoch, subscribed_topic_regex="u")
    assert "t.*" not in stage.group.subscriptions.resolved
    stage.mono += REFRESH_MS_MIN + 1
    stage.settle()
    assert stage.held("a") == {"u": [0]}
    stage.say("a", -1)
    assert not stage.group.subscriptions.resolved


def test_an_expression_that_others_use_as_well_is_kept_when_one_drops_it(stage: Stage) -> None:
    stage.say("a", 0, subscribed_topic_regex="t.*")
    stage.say("b", 0, subscribed_topic_regex="t.*")
    stage.settle()
    epoch = stage.group.epoch
    stage.say("b", stage.group.members["b"].epoch, subscribed_topic_regex="")
    assert "t.*" in stage.group.subscriptions.resolved
    assert stage.group.epoch == epoch + 1, "it is known what that means: nothing for b"
    stage.settle()
    assert (stage.held("a"), stage.held("b")) == ({"t": [0, 1]}, {})


def test_an_expression_that_is_known_already_counts_at_once(stage: Stage) -> None:
    stage.say("a", 0, subscribed_topic_regex="t.*")
    stage.settle()
    stage.resolves = False
    stage.say("b", 0, subscribed_topic_regex="t.*")
    stage.settle()
    assert {len(stage.held(it)["t"]) for it in "ab"} == {1}
    assert not stage.errands


def test_an_expression_that_came_too_soon_after_another_is_resolved_later(stage: Stage) -> None:
    stage.topic("u", 1)
    stage.say("a", 0, subscribed_topic_regex="t.*")
    stage.say("b", 0, subscribed_topic_regex="u.*")
    stage.settle()
    assert "u.*" not in stage.group.subscriptions.resolved
    stage.mono += REFRESH_MS_MIN + 1
    stage.settle()
    assert stage.held("b") == {"u": [0]}


def test_what_is_found_for_who_has_changed_its_mind_is_not_kept(stage: Stage) -> None:
    stage.resolves = False
    stage.say("a", 0, subscribed_topic_regex="t.*")
    stage.say("a", 1, subscribed_topic_regex="", subscribed_topic_names=["t"])
    while stage.errands:
        stage.resolve()
    assert not stage.group.subscriptions.resolved
    stage.restart()
    assert not stage.group.subscriptions.resolved


def test_topics_that_changed_under_an_expression_are_found_by_its_next_resolution(
    stage: Stage,
) -> None:
    stage.say("a", 0, subscribed_topic_regex="t.*")
    stage.settle()
    epoch = stage.group.epoch
    stage.topic("t", 4, first=2)
    stage.step(
        lambda at, out: on_resolved(
            stage.shard, dict(stage.group.subscriptions.resolved), GROUP_ID, at, out
        )
    )
    assert stage.group.epoch == epoch + 1
    stage.settle()
    assert stage.group.epoch == epoch + 1
    assert stage.held("a") == {"t": [0, 1, 2, 3]}


def test_a_topic_that_is_deleted_and_made_again_is_another_one(stage: Stage) -> None:
    stage.join("a", "t")
    stage.delete_topic("t")
    stage.change(
        TopicRecord(name="t", topic_id=topic_id("t2")),
        PartitionRecord(partition_id=0, topic_id=topic_id("t2"), replicas=[1], isr=[1], leader=1),
    )
    answer = stage.say("a", 2)
    assert answer.assignment.topic_partitions == [], "first it has to let go of the old one"
    stage.settle()
    assert stage.held("a") == {"t2": [0]}


def test_names_and_an_expression_together(stage: Stage) -> None:
    stage.topic("u", 1)
    stage.say("a", 0, subscribed_topic_names=["u"], subscribed_topic_regex="t")
    stage.settle()
    assert stage.held("a") == {"t": [0, 1], "u": [0]}


# -- hashes ---------------------------------------------------------------------------------------


def _image(racks: dict[int, str | None], **topics: Any) -> MetadataImage:
    class Broker:
        def __init__(self, rack: str | None) -> None:
            self.rack = rack

    cluster = ClusterImage()
    brokers = {number: Broker(rack) for number, rack in racks.items()}
    object.__setattr__(cluster, "brokers", brokers)
    by_name = {it.name: it for it in topics["all"]}
    return MetadataImage(1, 1, cluster=cluster, topics=TopicsImage(by_name, {}))


def _partition(*replicas: int) -> PartitionImage:
    return PartitionImage(replicas, (), replicas, replicas[0], 0, 0)


def test_a_topics_hash_is_kafkas() -> None:
    """The numbers are what Kafka's own code gave for this topic and for these two hashes."""
    identity = (1).to_bytes(8, "big") + (2).to_bytes(8, "big")
    topic = TopicImage("topic-é", identity, {0: _partition(1, 2), 1: _partition(2)})
    image = _image({1: "r1", 2: None}, all=[topic])
    assert topic_hash(topic, image) == -3176027245432280870
    assert group_hash(["none"], image, {}) == 0
    cache = {"topic-é": 5}
    assert group_hash(["none", "topic-é"], image, cache) == group_hash(["topic-é"], image, cache)


def test_a_hash_depends_on_partitions_and_racks() -> None:
    one = TopicImage("t", bytes(16), {0: _partition(1)})
    two = TopicImage("t", bytes(16), {0: _partition(1), 1: _partition(1)})
    hashes = {
        group_hash(["t"], _image({1: rack}, all=[topic]), {})
        for topic in (one, two)
        for rack in (None, "a", "b")
    }
    assert len(hashes) == 6

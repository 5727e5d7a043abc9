"""Which partitions have state at share coordinators: begun, failed, begun again, gone."""

from __future__ import annotations

import pytest

from penstock.coordination.group.deleting import StateFirst
from penstock.coordination.group.share.offsets import (
    begin_altering,
    begin_forgetting,
    end_forgetting,
)
from penstock.coordination.group.share.timers import LOOK_AFTER_MS
from penstock.metadata.image import EMPTY
from penstock.model.errors import ErrorCode
from tests.unit.coordination.consumer.stage import GROUP_ID, topic_id
from tests.unit.coordination.group.share.stage import RETRY_MS, ShareStage


@pytest.fixture
def stage() -> ShareStage:
    stage = ShareStage()
    stage.topic("t", 2)
    return stage


def test_state_is_asked_for_once_while_nobody_answers(stage: ShareStage) -> None:
    stage.resolves = False
    stage.say("a", 0, "t")
    stage.say("b", 0, "t")
    stage.advance(RETRY_MS - 1)
    stage.beat()
    assert len(stage.errands) == 1
    stage.advance(1)
    stage.beat()
    assert len(stage.errands) == 2


def test_another_coordinator_of_the_group_asks_again_after_a_while(stage: ShareStage) -> None:
    stage.resolves = False
    stage.say("a", 0, "t")
    stage.errands.clear()
    stage.restart()
    stage.beat()
    stage.advance(RETRY_MS - 1)
    stage.beat()
    assert not stage.errands
    stage.advance(1)
    stage.beat()
    assert len(stage.errands) == 1
    stage.resolve()
    stage.beat()
    assert stage.has("a") == {"t": [0, 1]}


def test_state_that_could_not_be_begun_is_asked_for_with_the_next_heartbeat(
    stage: ShareStage,
) -> None:
    stage.fails = True
    stage.say("a", 0, "t")
    assert stage.ready() == ({}, {}, [])
    stage.fails = False
    stage.beat()
    assert stage.ready() == ({}, {"t": [0, 1]}, [])
    stage.beat()
    assert stage.has("a") == {"t": [0, 1]}


def test_what_was_begun_for_a_topic_that_nobody_wants_any_more_keeps_nobody_waiting(
    stage: ShareStage,
) -> None:
    stage.topic("u", 1)
    stage.resolves = False
    stage.say("a", 0, "t")
    stage.errands.clear()
    stage.restart()
    stage.resolves = True
    stage.say("a", 2, "u")
    for _ in range(2):
        stage.beat()
    assert stage.ready() == ({"t": [0, 1]}, {"u": [0]}, [])
    assert not stage.shares.must_look
    stage.say("a", 4, "t", "u")
    stage.advance(RETRY_MS)
    for _ in range(2):
        stage.beat()
    assert stage.has("a") == {"t": [0, 1], "u": [0]}


def test_partitions_that_are_added_are_made_ready_too(stage: ShareStage) -> None:
    stage.say("a", 0, "t")
    stage.beat()
    stage.topic("t", 4, first=2)
    stage.resolves = False
    stage.beat()
    assert stage.ready() == ({"t": [2, 3]}, {"t": [0, 1]}, [])
    assert stage.has("a") == {"t": [0, 1]}
    stage.resolve()
    stage.beat()
    assert stage.has("a") == {"t": [0, 1, 2, 3]}


def test_a_topic_that_comes_later_is_read_then(stage: ShareStage) -> None:
    stage.say("a", 0, "later")
    stage.beat()
    assert stage.shares.ready is None
    stage.topic("later", 1)
    stage.beat()
    stage.beat()
    assert stage.has("a") == {"later": [0]}


def test_a_topic_that_is_deleted_is_forgotten(stage: ShareStage) -> None:
    stage.topic("u", 1)
    stage.say("a", 0, "t", "u")
    stage.beat()
    stage.delete_topic("t")
    stage.advance(0)
    assert stage.ready() == ({}, {"u": [0]}, [])
    stage.beat()
    assert stage.has("a") == {"u": [0]}


def test_what_is_deleted_while_the_log_refuses_is_forgotten_later(stage: ShareStage) -> None:
    stage.say("a", 0, "t")
    stage.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    stage.delete_topic("t")
    stage.advance(0)
    assert stage.ready() == ({}, {"t": [0, 1]}, [])
    stage.refusing = None
    stage.advance(1_000)
    assert stage.ready() == ({}, {}, [])


def test_a_topic_that_was_deleted_while_nobody_coordinated_the_group_is_forgotten_later(
    stage: ShareStage,
) -> None:
    stage.say("a", 0, "t")
    stage.beat()
    stage.delete_topic("t")
    stage.restart()
    stage.topic("u", 1)
    for _ in range(3):
        stage.beat()
    epoch = stage.shares.epoch
    stage.beat()
    assert stage.shares.epoch == epoch, "what cannot be assigned is no reason to assign"
    assert stage.ready() == ({}, {"t": [0, 1]}, [])
    stage.advance(LOOK_AFTER_MS)
    assert stage.ready() == ({}, {}, [])


def test_a_topic_that_the_node_hears_of_late_is_not_forgotten(stage: ShareStage) -> None:
    stage.say("a", 0, "t")
    stage.beat()
    image, stage.image = stage.image, EMPTY
    stage.restart()
    assert stage.ready() == ({}, {"t": [0, 1]}, [])
    stage.image = image
    stage.step(lambda at, out: stage.shard.on_image(image, None, at, out))
    stage.advance(LOOK_AFTER_MS)
    assert stage.ready() == ({}, {"t": [0, 1]}, [])


def test_an_answer_for_a_group_that_was_made_anew_counts_only_for_what_it_asked(
    stage: ShareStage,
) -> None:
    stage.topic("u", 1)
    stage.resolves = False
    stage.say("a", 0, "t")
    stage.say("a", -1)
    stage.delete()
    stage.step(lambda at, out: stage.shares.delete(out))
    stage.say("b", 0, "u")
    stage.resolve()
    assert stage.ready() == ({"u": [0]}, {}, [])


def test_a_group_goes_when_its_state_has_gone(stage: ShareStage) -> None:
    stage.say("a", 0, "t")
    assert stage.delete().results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    stage.say("a", -1)
    first = stage.delete()
    assert isinstance(first, StateFirst)
    assert stage.ready() == ({}, {}, ["t"])
    again = stage.delete()
    assert isinstance(again, StateFirst), "whoever tries again asks for the same"
    assert {it: sorted(topic.partitions) for it, topic in again.topics.items()} == {
        topic_id("t"): [0, 1]
    }


def test_a_group_that_never_had_state_goes_at_once(stage: ShareStage) -> None:
    stage.say("a", 0, "nowhere")
    stage.say("a", -1)
    assert stage.delete().results[0].error_code == 0
    assert GROUP_ID not in stage.shard.groups
    assert stage.delete().results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_whoever_reads_a_topic_again_while_it_is_forgotten_begins_anew(stage: ShareStage) -> None:
    stage.say("a", 0, "t")
    stage.say("a", -1)
    stage.ask(lambda _, out: begin_forgetting(stage.shard, out, GROUP_ID, ["t"]))
    assert stage.ready() == ({}, {}, ["t"])
    stage.say("b", 0, "t")
    assert stage.ready() == ({}, {"t": [0, 1]}, [])
    stage.step(lambda _, out: end_forgetting(stage.shard, out, GROUP_ID, [topic_id("t")]))
    assert stage.ready() == ({}, {"t": [0, 1]}, []), "what came after it stays"


def test_offsets_make_a_group(stage: ShareStage) -> None:
    wanted = {"t": [1], "nowhere": [0]}
    stage.ask(lambda at, out: begin_altering(stage.shard, at, out, GROUP_ID, wanted))
    assert stage.ready() == ({"t": [1]}, {}, [])
    assert stage.shares.state_name == "Empty"


def test_nothing_expires_in_a_share_group(stage: ShareStage) -> None:
    stage.say("a", 0, "t")
    stage.say("a", -1)
    stage.advance(30 * 24 * 3_600_000)
    assert stage.shares.is_empty
    assert stage.ready() == ({}, {"t": [0, 1]}, [])

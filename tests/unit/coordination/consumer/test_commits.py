"""Who may commit and look at offsets of a consumer group."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.coordination.effects import Effects
from penstock.model.errors import ErrorCode
from tests.unit.coordination.consumer.stage import Stage


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.topic("t", 4)
    stage.join("a", "t")
    stage.join("b", "t")
    stage.settle()
    return stage


def _commit(
    stage: Stage,
    member_id: str,
    generation: int,
    *partitions: int,
    is_transactional: bool = False,
    version: int = 9,
) -> ErrorCode:
    group = stage.group
    error = group.check_commit(
        member_id, None, generation, is_transactional, version, stage.at, Effects()
    )
    wanted = [("t", number) for number in partitions]
    return error or group.check_partitions(
        member_id, generation, wanted, stage.shard.consumers.image.topics
    )


@pytest.mark.parametrize(
    ("member_id", "generation", "options", "error"),
    [
        ("a", 3, {}, ErrorCode.NONE),
        ("a", 4, {}, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 3, {"version": 8}, ErrorCode.UNSUPPORTED_VERSION),
        ("a", 3, {"version": 3, "is_transactional": True}, ErrorCode.NONE),
        ("z", 3, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, {"is_transactional": True}, ErrorCode.NONE),
    ],
)
def test_members_commit_at_their_epoch(
    stage: Stage, member_id: str, generation: int, options: dict[str, Any], error: ErrorCode
) -> None:
    assert _commit(stage, member_id, generation, 0, **options) == error


def test_who_has_held_a_partition_ever_since_may_commit_at_an_older_epoch(stage: Stage) -> None:
    assert stage.held("a") == {"t": [0, 1]} and stage.held("b") == {"t": [2, 3]}
    assert _commit(stage, "a", 2, 0, 1) == ErrorCode.NONE
    assert _commit(stage, "a", 2, 0, 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert _commit(stage, "b", 2, 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert _commit(stage, "a", 1, 0) == ErrorCode.STALE_MEMBER_EPOCH


def test_what_is_being_let_go_may_still_be_committed(stage: Stage) -> None:
    stage.join("c", "t")
    stage.say("b", 3)
    assert stage.held("b") == {"t": [2]}
    assert _commit(stage, "b", 3, 2, 3) == ErrorCode.NONE
    stage.say("b", 3, {"t": [2]})
    assert _commit(stage, "b", 3, 2) == ErrorCode.NONE
    assert _commit(stage, "b", 3, 3) == ErrorCode.STALE_MEMBER_EPOCH


def test_anybody_may_commit_for_an_empty_group(stage: Stage) -> None:
    stage.say("a", -1)
    stage.say("b", -1)
    assert _commit(stage, "", -1, 0) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("a", 3, ErrorCode.NONE),
        ("a", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("z", 3, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_members_fetch_offsets_at_their_epoch(
    stage: Stage, member_id: str | None, epoch: int, error: ErrorCode
) -> None:
    assert stage.group.check_fetch(member_id, epoch) == error

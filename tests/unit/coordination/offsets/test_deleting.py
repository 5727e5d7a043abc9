"""Groups and offsets that are deleted, and topics that take their offsets with them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.coordination.group.deleting import delete_group, delete_offsets
from penstock.coordination.group.offsets import tombstones
from penstock.coordination.group.offsets.timers import FORGET, on_image
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.protocol.generated.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.unit.coordination.offsets.desk import TOPIC_ID, Desk
from tests.unit.coordination.offsets.test_expiry import with_members


def delete(desk: Desk, group_id: str) -> ErrorCode:
    response = desk.step(
        lambda shard, at, out, ticket: delete_group(shard, at, out, ticket, group_id)
    )
    [result] = response.results
    assert result.group_id == group_id
    return ErrorCode(result.error_code)


def test_a_group_goes_with_all_that_it_committed_and_would_have() -> None:
    desk = Desk()
    desk.commit("g", 1)
    desk.commit("g", 1, "u", 3)
    desk.commit("g", 1, "v", producer=5)
    desk.commit("g", 2, producer=5)
    desk.commit("other", 1)
    assert delete(desk, "g") == ErrorCode.NONE
    assert delete(desk, "nobody") == ErrorCode.GROUP_ID_NOT_FOUND
    assert list(desk.shard.groups) == ["other"]
    desk.end_txn(5, is_commit=True)
    assert list(desk.shard.offsets.by_group) == ["other"]


def test_a_group_with_members_stays() -> None:
    desk = Desk()
    desk.commit("g", 1)
    group: Any = with_members(desk)
    group.check_delete = lambda: ErrorCode.NON_EMPTY_GROUP
    assert delete(desk, "g") == ErrorCode.NON_EMPTY_GROUP
    assert desk.offset("g") == 1


def forget(desk: Desk, group: str, topic: str, *partitions: int) -> Any:
    topics = [
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=[OffsetDeleteRequestPartition(partition_index=it) for it in partitions],
        )
    ]
    return desk.step(
        lambda shard, at, out, ticket: delete_offsets(shard, at, out, ticket, group, topics)
    )


def test_offsets_that_a_member_may_need_are_not_deleted() -> None:
    desk = Desk()
    desk.commit("g", 1, "read")
    desk.commit("g", 1, "left")
    with_members(desk, topics=("read",))
    [read] = forget(desk, "g", "read", 0).topics
    assert [it.error_code for it in read.partitions] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    [left] = forget(desk, "g", "left", 0, 1).topics
    assert [it.error_code for it in left.partitions] == [ErrorCode.NONE] * 2
    assert desk.offset("g", "read") == 1 and desk.offset("g", "left") is None


def test_offsets_of_members_that_are_no_consumers_are_not_deleted() -> None:
    desk = Desk()
    desk.commit("g", 1)
    with_members(desk, protocol_type="connect")
    assert forget(desk, "g", "t", 0).error_code == ErrorCode.NON_EMPTY_GROUP


def test_an_offset_that_is_pending_is_deleted_too() -> None:
    desk = Desk()
    desk.commit("g", 1, producer=5)
    forget(desk, "g", "t", 0)
    desk.end_txn(5, is_commit=True)
    assert desk.offset("g") is None


def test_offsets_of_a_deleted_topic_go_but_not_those_of_its_successor() -> None:
    desk = Desk()
    desk.commit("g", 1)
    desk.commit("g", 1, partition=1, topic_id=b"n" * 16)  # of a topic that has the name by now
    desk.commit("h", 1, topic_id=ZERO_UUID)
    desk.commit("h", 1, "u")
    desk.commit("i", 1, producer=5, topic_id=ZERO_UUID)
    tell_deleted(desk, "t")
    assert desk.timers[FORGET] == desk.now
    assert desk.fire(*FORGET) == 3
    assert desk.offset("g") is None and desk.offset("g", partition=1) == 1
    assert desk.offset("h") is None and desk.offset("h", "u") == 1
    desk.end_txn(5, is_commit=True)
    assert desk.offset("i") is None
    assert not desk.shard.offsets.deleted_topics


def tell_deleted(desk: Desk, topic: str) -> None:
    gone = {TOPIC_ID: SimpleNamespace(id=TOPIC_ID, name=topic)}
    delta = SimpleNamespace(topics=SimpleNamespace(deleted=gone, changed={}), configs=None)
    desk.step(lambda shard, at, out, _: on_image(shard, None, delta, at, out))  # type: ignore[arg-type]


def test_very_many_offsets_of_a_deleted_topic_go_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tombstones, "RECORDS_PER_STEP", 10)
    desk = Desk()
    for partition in range(35):
        desk.commit("g", 1, partition=partition)
    tell_deleted(desk, "t")
    assert [desk.fire(*FORGET) for _ in range(4)] == [10, 10, 10, 5]
    assert not desk.shard.offsets.deleted_topics


def test_a_deleted_topic_is_remembered_when_the_log_refuses_the_tombstones() -> None:
    desk = Desk()
    desk.commit("g", 1)
    tell_deleted(desk, "t")
    out = desk.decide(lambda shard, at, out, _: shard.on_timer(FORGET, at, out))
    assert out.undo is not None and not desk.shard.offsets.deleted_topics
    amends = desk.decide(lambda shard, at, amends, _: out.undo(ErrorCode.NONE, amends))  # type: ignore[misc]
    assert amends.timers[FORGET] > desk.now
    assert desk.fire(*FORGET) == 1

"""Share groups on whole nodes: who may do what with them, and what is done elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.model.operations import Operation
from penstock.protocol.generated.delete_groups import DeleteGroupsRequest
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
from penstock.protocol.generated.list_groups import ListGroupsRequest
from penstock.protocol.generated.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.protocol.message import Message
from penstock.server.group_share_state import ShareKey
from tests.unit.server import share_group_questions as q
from tests.unit.server.asking import Asker, batch
from tests.unit.server.rights_scene import (
    Guarded,
    error_of,
    errors,
    group,
    guarded_node,
    topic,
    until,
)
from tests.unit.server.several import several_nodes

GOOD = "NONE"
NO_TOPIC = "TOPIC_AUTHORIZATION_FAILED"
NO_GROUP = "GROUP_AUTHORIZATION_FAILED"
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
SAFE_DOWNGRADE = 2


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Guarded]:
    """A share group `g` that has read `mine` and `theirs`, and nobody in it."""
    small = {"share.coordinator.state.topic.num.partitions": "1"}
    async with guarded_node(tmp_path, small) as node:
        await node.create("mine", "theirs", partitions=1)
        for name in ("mine", "theirs"):
            await node.asker.produce(name, batch(5))
        await coordinated(node.asker, "g")
        await settle(node.asker, "g", "mine", "theirs")
        yield node


async def coordinated(asker: Asker, group_id: str) -> None:
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
    for _ in range(500):
        found = (await asker.ask(find, 4)).coordinators[0]
        described = await asker.ask(q.describing_groups(group_id), 1)
        error = described.groups[0].error_code
        if not found.error_code and error in (0, ErrorCode.GROUP_ID_NOT_FOUND):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"nobody coordinates {group_id}")


async def settle(asker: Asker, group_id: str, *topics: str) -> None:
    """A member joins, gets partitions of all the topics, and goes."""
    answer = await asker.ask(q.beating(group_id, topics), 1)
    for _ in range(500):
        assert answer.error_code == 0, answer
        given = answer.assignment.topic_partitions if answer.assignment else ()
        if len(given) == len(topics):
            break
        await asyncio.sleep(0.01)
        answer = await asker.ask(q.beating(group_id, epoch=answer.member_epoch), 1)
    else:
        raise AssertionError("partitions never became ready")
    await asker.ask(q.beating(group_id, epoch=-1), 1)


async def test_to_be_a_member_takes_rights_to_the_group_and_its_topics(world: Guarded) -> None:
    join = q.beating("g", ["mine", "theirs"])
    await world.may(topic("mine", Operation.READ), topic("theirs", Operation.READ))
    assert error_of(await world.ask(join, 1)) == NO_GROUP
    await world.may(group("g", Operation.READ), topic("mine", Operation.DESCRIBE))
    assert error_of(await world.ask(join, 1)) == NO_TOPIC
    joined = await world.ask(q.beating("g", ["mine"]), 1)
    assert error_of(joined) == GOOD
    await world.may(topic("mine", Operation.READ))
    beat = q.beating("g", epoch=joined.member_epoch)
    assert error_of(await world.ask(beat, 1)) == NO_GROUP


async def test_a_group_is_described_to_who_may_know_all_its_topics(world: Guarded) -> None:
    joined = await world.ask(q.beating("g", ["mine", "theirs"]), 1)
    assert joined.assignment.topic_partitions
    may_group = group("g", Operation.DESCRIBE)
    await world.may(topic("mine", Operation.DESCRIBE), topic("theirs", Operation.DESCRIBE))
    described = await world.ask(q.describing_groups("g"), 1)
    assert errors(described, "groups", "group_id") == {"g": NO_GROUP}
    await world.may(may_group, topic("mine", Operation.DESCRIBE))
    described = await world.ask(q.describing_groups("g"), 1)
    assert errors(described, "groups", "group_id") == {"g": NO_TOPIC}
    assert described.groups[0].members == []
    await world.may(may_group, *(topic(it, Operation.DESCRIBE) for it in ("mine", "theirs")))
    described = await world.ask(q.describing_groups("g"), 1)
    assert described.groups[0].members[0].subscribed_topic_names == ["mine", "theirs"]
    assert described.groups[0].authorized_operations == 1 << Operation.DESCRIBE


async def test_offsets_are_shown_of_topics_that_may_be_known(world: Guarded) -> None:
    await world.may(topic("mine", Operation.DESCRIBE))
    refused = await world.ask(q.describing_offsets("g"), 1)
    assert errors(refused, "groups", "group_id") == {"g": NO_GROUP}
    await world.may(group("g", Operation.DESCRIBE), topic("mine", Operation.DESCRIBE))
    everything = (await world.ask(q.describing_offsets("g"), 1)).groups[0]
    assert errors(everything, "topics", "topic_name") == {"mine": GOOD}
    named = q.describing_offsets("g", {"mine": [0, 4], "theirs": [0], "absent": [0]})
    asked = (await world.ask(named, 1)).groups[0]
    told = errors(asked, "topics", "topic_name")
    assert told == {"mine": GOOD, "theirs": NO_TOPIC, "absent": NO_TOPIC}
    offsets = {
        (it.topic_name, each.partition_index): each.start_offset
        for it in asked.topics
        for each in it.partitions
    }
    assert set(offsets.values()) == {-1}


async def test_offsets_are_changed_by_who_may_read_and_deleted_by_who_may_delete(
    world: Guarded,
) -> None:
    alter = q.altering_offsets("g", {"mine": {0: 2, 1: 2}, "theirs": {0: 2}, "absent": {0: 1}})
    delete = q.deleting_offsets("g", "mine", "theirs")
    await world.may(topic("mine", Operation.READ))
    assert error_of(await world.ask(alter, 0)) == NO_GROUP
    assert error_of(await world.ask(delete, 0)) == NO_GROUP
    await world.may(group("g", Operation.READ), topic("mine", Operation.READ))
    assert error_of(await world.ask(delete, 0)) == NO_GROUP
    answer = await world.ask(alter, 0)
    told = errors(answer, "responses", "topic_name")
    assert told == {"mine": f"{GOOD} {UNKNOWN}", "theirs": NO_TOPIC, "absent": NO_TOPIC}
    ids = {it.topic_name: it.topic_id for it in answer.responses}
    assert ids == {"mine": world.ids["mine"], "theirs": ZERO_UUID, "absent": ZERO_UUID}
    summary = await world.broker.coordinators.persister.summary(ShareKey("g", world.ids["mine"], 0))
    assert (summary.start, summary.complete) == (2, 0)  # type: ignore[union-attr]
    await world.may(group("g", Operation.DELETE), topic("mine", Operation.READ))
    told = errors(await world.ask(delete, 0), "responses", "topic_name")
    assert told == {"mine": GOOD, "theirs": NO_TOPIC}


async def test_an_offset_below_all_is_refused(world: Guarded) -> None:
    answer = await world.ask(q.altering_offsets("g", {"mine": {0: -2}}), 0)
    assert errors(answer, "responses", "topic_name") == {"mine": "OFFSET_OUT_OF_RANGE"}


@pytest.mark.parametrize(
    "request_of",
    [q.altering_offsets("", {"mine": {0: 1}}), q.deleting_offsets("", "mine")],
)
async def test_a_group_has_a_name(world: Guarded, request_of: Message) -> None:
    assert error_of(await world.ask(request_of, 0)) == "INVALID_GROUP_ID"


async def test_share_groups_are_there_when_the_cluster_has_agreed_on_them(world: Guarded) -> None:
    off = FeatureUpdateKey(
        feature="share.version", max_version_level=0, upgrade_type=SAFE_DOWNGRADE
    )
    done = await world.ask(UpdateFeaturesRequest(feature_updates=[off], timeout_ms=5000), 2)
    assert error_of(done) == GOOD
    await until(lambda: "share.version" not in world.broker.image.features.levels)
    refused = "UNSUPPORTED_VERSION"
    assert error_of(await world.ask(q.beating("g", ["mine"]), 1)) == refused
    assert error_of(await world.ask(q.altering_offsets("g", {}), 0)) == refused
    assert error_of(await world.ask(q.deleting_offsets("g"), 0)) == refused
    for request, version in ((q.describing_groups("g"), 1), (q.describing_offsets("g"), 1)):
        told = await world.ask(request, version)
        assert errors(told, "groups", "group_id") == {"g": refused}


async def test_a_group_whose_state_cannot_be_forgotten_is_still_there(
    world: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_key: ShareKey) -> ErrorCode:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    delete = DeleteGroupsRequest(groups_names=["g"])
    with monkeypatch.context() as patch:
        patch.setattr(world.broker.coordinators.persister, "delete", fail)
        answer = await world.ask(delete, 2)
        assert errors(answer, "results", "group_id") == {"g": "COORDINATOR_NOT_AVAILABLE"}
        told = await world.ask(q.deleting_offsets("g", "mine"), 0)
        assert errors(told, "responses", "topic_name") == {"mine": "COORDINATOR_NOT_AVAILABLE"}
    assert await listed(world) == ["g"]
    answer = await world.ask(delete, 2)
    assert errors(answer, "results", "group_id") == {"g": GOOD}
    assert await listed(world) == []
    for topic_id in world.ids.values():
        known = await world.broker.coordinators.persister.summary(ShareKey("g", topic_id, 0))
        assert known.start == -1  # type: ignore[union-attr]


async def listed(world: Guarded) -> list[str]:
    answer = await world.ask(ListGroupsRequest(types_filter=["SHARE"]), 5)
    return [it.group_id for it in answer.groups]


async def test_state_that_cannot_be_begun_is_asked_for_again(
    world: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[ShareKey] = []

    async def fail(key: ShareKey, *_: object) -> ErrorCode:
        tries.append(key)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    with monkeypatch.context() as patch:
        patch.setattr(world.broker.coordinators.persister, "initialize", fail)
        joined = await world.ask(q.beating("new", ["mine"]), 1)
        assert (error_of(joined), joined.assignment.topic_partitions) == (GOOD, [])
        for _ in range(500):
            await world.ask(q.beating("new", epoch=joined.member_epoch), 1)
            if len(tries) > 2:
                break
            await asyncio.sleep(0.01)
        assert len(tries) > 2
        told = await world.ask(q.altering_offsets("other", {"mine": {0: 1}}), 0)
        assert errors(told, "responses", "topic_name") == {"mine": "COORDINATOR_NOT_AVAILABLE"}
    await world.ask(q.beating("new", epoch=-1), 1)
    await settle(world.asker, "new", "mine")


async def test_lag_is_told_wherever_a_partition_is_led(tmp_path: Path) -> None:
    async with several_nodes(tmp_path) as several:
        await several.create("spread", partitions=3)
        for index in range(3):
            leader = several.leader("spread", index)
            await several.askers[leader].produce("spread", batch(4 + index), index)
        await several.askers[1].ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        await several.until(lambda: several.state("__consumer_offsets", 0), "a coordinator")
        asker = several.askers[several.coordinator("__consumer_offsets", "g")]
        await coordinated(asker, "g")
        starts = {"spread": {0: 0, 1: 1, 2: 2}}
        told = await asker.ask(q.altering_offsets("g", starts), 0)
        assert errors(told, "responses", "topic_name") == {"spread": GOOD}
        answer = (await asker.ask(q.describing_offsets("g"), 1)).groups[0]
        assert {lag(it) for it in answer.topics[0].partitions} == {(0, 0, 4), (1, 1, 4), (2, 2, 4)}


def lag(partition: Any) -> tuple[int, int, int]:
    assert partition.error_code == 0, partition
    return partition.partition_index, partition.start_offset, partition.lag


async def test_members_go_on_where_they_were_when_their_coordinator_fails(tmp_path: Path) -> None:
    async with several_nodes(tmp_path) as several:
        await several.create("kept", partitions=2, replicas=3)
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        await several.askers[1].ask(find, 4)
        await several.until(lambda: several.state("__consumer_offsets", 0), "a coordinator")
        home = several.coordinator("__consumer_offsets", "g")
        await coordinated(several.askers[home], "g")
        answer = await several.askers[home].ask(q.beating("g", ["kept"]), 1)
        while not answer.assignment or not answer.assignment.topic_partitions:
            await asyncio.sleep(0.01)
            beat = q.beating("g", epoch=answer.member_epoch)
            answer = await several.askers[home].ask(beat, 1)
        await several.stop(home)
        await several.until(
            lambda: several.coordinator("__consumer_offsets", "g") not in (-1, home), "elsewhere"
        )
        there = several.askers[several.coordinator("__consumer_offsets", "g")]
        await coordinated(there, "g")
        again = await there.ask(q.beating("g", epoch=answer.member_epoch), 1)
        assert (again.error_code, again.member_epoch) == (0, answer.member_epoch)
        described = (await there.ask(q.describing_groups("g"), 1)).groups[0]
        assert described.group_state == "Stable"
        assert described.members[0].assignment.topic_partitions[0].partitions == [0, 1]

"""Streams groups over the wire: rights, the topics that applications miss, and who may look."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from penstock.coordination.group.streams.status import StatusCode
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.delete_groups import DeleteGroupsRequest
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
from penstock.protocol.generated.list_groups import ListGroupsRequest
from penstock.protocol.generated.streams_group_describe import StreamsGroupDescribeRequest
from penstock.protocol.generated.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Topology,
)
from tests.unit.coordination.group.streams.applications import (
    application,
    internal,
    stateful,
    stateless,
    subtopology,
)
from tests.unit.server.asking import Asker, asking, port_of, running_node
from tests.unit.server.rights_scene import cluster, group, guarded_node, topic

SMALL = {
    "offsets.topic.num.partitions": "1",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "1",
    "group.streams.heartbeat.interval.ms": "50",
}


async def ready(asker: Asker) -> None:
    """Wait until the groups' topic is there and its shard is loaded."""
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    for _ in range(200):
        if not (await asker.ask(find, 4)).coordinators[0].error_code and (
            await beat(asker, 5)
        ).error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED):
            return
        await asyncio.sleep(0.02)
    raise AssertionError("nobody coordinates")


async def beat(asker: Asker, epoch: int, topology: Topology | None = None) -> Any:
    fields: dict[str, Any] = {}
    if epoch == 0:
        fields = {
            "active_tasks": [], "standby_tasks": [], "warmup_tasks": [],
            "rebalance_timeout_ms": 30_000, "process_id": "p",
        }  # fmt: skip
    request = StreamsGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, topology=topology, **fields
    )
    return await asker.ask(request, 0)


async def until_assigned(asker: Asker, epoch: int) -> Any:
    """Report until tasks come; answers with whom they come."""
    for _ in range(300):
        answer = await beat(asker, epoch)
        assert answer.error_code == 0, answer
        if answer.active_tasks:
            return answer
        epoch = answer.member_epoch
        await asyncio.sleep(0.02)
    raise AssertionError(f"no tasks: {answer}")


def details(answer: Any) -> dict[int, str]:
    return {it.status_code: it.status_detail for it in answer.status}


async def described(asker: Asker) -> Any:
    request = StreamsGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
    return (await asker.ask(request, 0)).groups[0]


async def test_an_application_gets_the_topics_that_it_misses_and_then_its_tasks(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path, SMALL) as node, asking(port_of(node)) as asker:
        await ready(asker)
        await asker.create("lines", 3)
        first = await beat(asker, 0, stateful("lines"))
        assert list(details(first)) == [StatusCode.MISSING_INTERNAL_TOPICS]
        got = await until_assigned(asker, first.member_epoch)
        assert got.active_tasks[0].partitions == [0, 1, 2]
        assert len(node.broker.image.topics.by_name["lines-changelog"].partitions) == 3
        shown = await described(asker)
        assert (shown.group_state, len(shown.members)) == ("Stable", 1)
        listed = await asker.ask(ListGroupsRequest(types_filter=["streams"]), 5)
        assert [(it.group_id, it.group_type) for it in listed.groups] == [("g", "streams")]
        busy = await asker.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
        assert busy.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        await beat(asker, -1)
        gone = await asker.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
        assert gone.results[0].error_code == 0
        assert (await described(asker)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_topic_that_cannot_be_made_is_told_of_and_tried_again_later(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path, SMALL) as node, asking(port_of(node)) as asker:
        await ready(asker)
        await asker.create("lines", 1)
        wrong = internal("kept", nonsense="1")
        answer = await beat(asker, 0, application(subtopology("0", "lines", changelogs=[wrong])))
        for _ in range(200):
            answer = await beat(asker, answer.member_epoch)
            if "could not be created" in details(answer)[StatusCode.MISSING_INTERNAL_TOPICS]:
                break
            await asyncio.sleep(0.02)
        told = details(answer)[StatusCode.MISSING_INTERNAL_TOPICS]
        assert "kept (" in told and "nonsense" in told
        await asker.create("kept", 1)
        await until_assigned(asker, answer.member_epoch)


async def test_the_protocol_can_be_switched_off(tmp_path: Path) -> None:
    config = {**SMALL, "group.coordinator.rebalance.protocols": "classic,consumer"}
    async with running_node(tmp_path, config) as node, asking(port_of(node)) as asker:
        answer = await beat(asker, 0, stateless("lines"))
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await described(asker)).error_code == ErrorCode.UNSUPPORTED_VERSION


READ_GROUP = group("g", Operation.READ, Operation.DESCRIBE)


async def test_a_member_may_read_its_group_and_know_its_topics(tmp_path: Path) -> None:
    async with guarded_node(tmp_path, SMALL) as node:
        await ready(node.asker)
        await node.create("lines", partitions=1)
        await node.may(topic("lines", Operation.READ))
        denied = await beat(node.asker, 0, stateless("lines"))
        assert denied.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert (await described(node.asker)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        await node.may(READ_GROUP)
        denied = await beat(node.asker, 0, stateless("lines"))
        assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await node.may(READ_GROUP, topic("lines", Operation.READ))
        assert (await beat(node.asker, 0, stateless("lines"))).error_code == 0
        assert (await described(node.asker)).error_code == 0
        await node.may(READ_GROUP)
        hidden = await described(node.asker)
        assert hidden.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (hidden.topology, hidden.members) == (None, [])


async def test_internal_topics_are_made_for_those_who_may_create_them(tmp_path: Path) -> None:
    async with guarded_node(tmp_path, SMALL) as node:
        await ready(node.asker)
        await node.create("lines", partitions=1)
        known = [*topic("lines", Operation.READ), *topic("lines-changelog", Operation.READ)]
        await node.may(READ_GROUP, known)
        answer = await beat(node.asker, 0, stateful("lines"))
        told = details(answer)[StatusCode.MISSING_INTERNAL_TOPICS]
        assert "You may not create lines-changelog." in told
        await node.may(READ_GROUP, known, topic("lines-changelog", Operation.CREATE))
        await until_assigned(node.asker, answer.member_epoch)


async def test_a_right_to_create_on_the_cluster_will_do(tmp_path: Path) -> None:
    async with guarded_node(tmp_path, SMALL) as node:
        await ready(node.asker)
        await node.create("lines", partitions=1)
        known = [*topic("lines", Operation.READ), *topic("lines-changelog", Operation.READ)]
        await node.may(READ_GROUP, known, cluster(Operation.CREATE))
        answer = await beat(node.asker, 0, stateful("lines"))
        await until_assigned(node.asker, answer.member_epoch)

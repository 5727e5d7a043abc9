"""Groups of Penstock and of Apache Kafka, told the same, say the same, and write the same records.

Each scene is played to both, and the transcripts are compared.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from penstock.protocol.generated.describe_groups import DescribeGroupsRequest
from penstock.protocol.generated.heartbeat import HeartbeatRequest
from penstock.protocol.generated.leave_group import LeaveGroupRequest, MemberIdentity
from tests.oracle.nodes import ApacheNode
from tests.unit.coordination.classic.scenes import Scene, subscription
from tests.unit.server.asking import port_of, running_node

pytestmark = pytest.mark.java

CONFIG = {"group.initial.rebalance.delay.ms": "700", "group.max.size": "3"}
Play = Callable[[Scene], Awaitable[None]]


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    with ApacheNode(tmp_path_factory.mktemp("apache"), config=CONFIG) as node:
        yield node  # type: ignore[misc]


@pytest.fixture
async def agree(
    apache: ApacheNode, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Callable[[Play], Awaitable[None]]]:
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(running_node(tmp_path, CONFIG))

        async def compare(play: Play) -> None:
            transcripts = []
            for port in (apache.port, port_of(node)):
                scene = Scene(port, request.node.name, stack)
                await scene.open()
                await play(scene)
                await scene.records()
                transcripts.append(scene.lines)
            theirs, ours = transcripts
            assert ours == theirs

        yield compare


async def test_strangers_are_refused_in_all_versions(
    agree: Callable[[Play], Awaitable[None]],
) -> None:
    async def play(scene: Scene) -> None:
        for version in range(10):
            await scene.ask(scene.join_request("stranger"), version)
            await scene.ask(scene.join_request("stranger", group_id=""), version)
            await scene.ask(scene.join_request(session_timeout_ms=5999), version)
            await scene.ask(scene.join_request(session_timeout_ms=1_800_001), version)
        for version in range(6):
            await scene.ask(scene.sync_request("stranger", 1), version)
            await scene.ask(scene.sync_request("stranger", 1, group_id=""), version)
        await scene.ask(scene.sync_request("stranger", 1, protocol_name=None), 5)
        for version in range(5):
            beat = HeartbeatRequest(group_id=scene.group, member_id="stranger", generation_id=1)
            await scene.ask(beat, version)
            await scene.ask(HeartbeatRequest(group_id="", member_id="stranger"), version)
        for version in range(6):
            for group in (scene.group, ""):
                leave = LeaveGroupRequest(
                    group_id=group,
                    member_id="stranger" if version < 3 else "",
                    members=[
                        MemberIdentity(member_id="stranger"),
                        MemberIdentity(group_instance_id="x" if version > 2 else None),
                    ][: 2 if version > 2 else 0],
                )
                await scene.ask(leave, version)
        await scene.describe(*range(7))
        await scene.ask(DescribeGroupsRequest(groups=[]), 6)
        await scene.ask(DescribeGroupsRequest(groups=["", "other"]), 6)

    await agree(play)


async def test_a_group_of_two_comes_and_goes(agree: Callable[[Play], Awaitable[None]]) -> None:
    async def play(scene: Scene) -> None:
        leader, follower = await scene.stable(None, None)
        await scene.describe(*range(7))
        await scene.beat(leader, 1)
        await scene.beat(leader, 0)
        await scene.beat(leader, 1, group_instance_id="x")
        await scene.ask(scene.join_request(follower), 9)
        await scene.ask(scene.sync_request(follower, 1), 5)
        await scene.ask(scene.sync_request(follower, 7), 5)
        await scene.ask(scene.sync_request(follower, 1, protocol_name="sticky"), 5)
        await scene.ask(scene.sync_request(follower, 1, protocol_type="connect"), 5)
        await scene.ask(scene.join_request(follower, protocols={"other": b""}), 9)
        await scene.ask(scene.join_request(protocol_type="connect"), 9)
        await scene.leave((follower, None), ("stranger", None), ("", "x"))
        await scene.describe(5, 6)
        await scene.beat(leader, 1)
        await scene.ask(scene.sync_request(leader, 1), 5)
        again = await scene.joining(9, leader)
        await scene.joined(9, again)
        await scene.describe(6)
        await scene.beat(leader, 2)
        await scene.ask(scene.join_request(leader), 9)
        await scene.ask(scene.sync_request(leader, 2, work={leader: b"all of it"}), 5)
        await scene.describe(6)
        await scene.leave((leader, None))
        await scene.describe(5, 6)
        await scene.beat(leader, 2)

    await agree(play)


async def test_static_members_come_back(agree: Callable[[Play], Awaitable[None]]) -> None:
    async def play(scene: Scene) -> None:
        one, two = await scene.stable("one", "two")
        await scene.describe(4, 6)
        for version in (8, 9):
            for instance in ("two", "one"):
                answer = await scene.ask(scene.join_request(group_instance_id=instance), version)
                request = scene.sync_request(answer.member_id, 1, group_instance_id=instance)
                await scene.ask(request, 5)
        await scene.beat(one, 1, group_instance_id="one")
        await scene.beat(two, 1)
        await scene.ask(scene.sync_request(one, 1, group_instance_id="one"), 5)
        await scene.ask(scene.join_request(one, group_instance_id="one"), 9)
        await scene.leave((one, "one"))
        changed = {"range": subscription("t", "u")}
        await scene.ask(scene.join_request(group_instance_id="two", protocols=changed), 9)
        await scene.describe(6)
        await scene.leave(("", "two"), ("", "one"))
        await scene.describe(6)

    await agree(play)


async def test_old_versions_join_without_an_id(agree: Callable[[Play], Awaitable[None]]) -> None:
    async def play(scene: Scene) -> None:
        waiting = await scene.joining(0)
        [answer] = await scene.joined(0, waiting)
        member = answer.member_id
        request = scene.sync_request(member, 1, work={member: b"work"})
        await scene.ask(request, 0)
        await scene.describe(0)
        for version in range(1, 10):
            await scene.joined(version, await scene.joining(version, member))
            await scene.ask(
                scene.sync_request(member, version + 1, work={member: b"w"}), min(version, 5)
            )
        leave = LeaveGroupRequest(group_id=scene.group, member_id=member)
        await scene.ask(leave, 1)
        await scene.ask(leave, 2)

    await agree(play)


async def test_a_full_group_refuses(agree: Callable[[Play], Awaitable[None]]) -> None:
    async def play(scene: Scene) -> None:
        await scene.stable("one", "two", "three")
        await scene.ask(scene.join_request(), 9)
        await scene.ask(scene.join_request(group_instance_id="four"), 9)
        await scene.describe(6)

    await agree(play)


async def test_groups_of_other_types(agree: Callable[[Play], Awaitable[None]]) -> None:
    async def play(scene: Scene) -> None:
        said = {"protocol_type": "connect", "protocols": {"sessioned": b"\0\1"}}
        member = await scene.new_id(**said)
        await scene.joined(9, await scene.joining(9, member, **said))
        named = {"protocol_type": "connect", "protocol_name": "sessioned"}
        await scene.ask(scene.sync_request(member, 1, work={member: b"x"}, **named), 5)
        await scene.describe(6)
        await scene.leave((member, None))
        await scene.describe(6)

    await agree(play)


async def test_an_assignment_that_is_too_large(agree: Callable[[Play], Awaitable[None]]) -> None:
    async def play(scene: Scene) -> None:
        large = {"range": subscription("t") + b"x" * 1_200_000}
        member = await scene.new_id(protocols=large)
        waiting = await scene.joining(9, member, protocols=large)
        answer = await waiting
        assert (answer.error_code, len(answer.members[0].metadata)) == (0, len(large["range"]))
        await scene.ask(scene.sync_request(member, 1, work={member: b"work"}), 5)
        await scene.describe(6)
        await scene.beat(member, 1)
        [again] = await scene.joined(9, await scene.joining(9, member))
        await scene.ask(scene.sync_request(member, 2, work={member: b"w" * 1_200_000}), 5)
        await scene.joined(9, await scene.joining(9, again.member_id))
        await scene.ask(scene.sync_request(member, 3, work={member: b"work"}), 5)
        await scene.describe(6)

    await agree(play)


async def test_who_comes_while_the_leader_assigns(agree: Callable[[Play], Awaitable[None]]) -> None:
    async def play(scene: Scene) -> None:
        both = {"range": subscription("t"), "sticky": b"\0\0"}
        first = await scene.new_id(protocols=both)
        second = await scene.new_id(protocols=both)
        waiting = [await scene.joining(9, it, protocols=both) for it in (first, second)]
        await scene.joined(9, *waiting)
        await scene.describe(6)
        await scene.ask(scene.join_request(second, protocols=both), 9)
        third = await scene.joining(3, protocols={"sticky": b"\0\1"})
        await scene.beat(first, 1)
        await scene.ask(scene.sync_request(first, 1, work={first: b"work"}), 5)
        await scene.describe(6)
        waiting = [await scene.joining(9, it, protocols=both) for it in (first, second)]
        answers = await scene.joined(9, *waiting, third)
        named = {"protocol_name": "sticky"}
        for answer in answers:
            work = {first: b"f", second: b"s"} if answer.member_id == first else {}
            request = scene.sync_request(answer.member_id, 2, work=work, **named)
            await scene.ask(request, 5)
        await scene.describe(6)
        await scene.leave((second, None), (answers[2].member_id, None))
        await scene.ask(scene.join_request(second, protocols=both), 9)

    await agree(play)

"""Both coordinators, Apache's and ours, in one conversation with the members of a group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.protocol.generated.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from penstock.protocol.generated.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from penstock.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
from penstock.protocol.generated.heartbeat import HeartbeatRequest
from penstock.protocol.generated.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.generated.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.generated.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.message import Message, Part
from penstock.protocol.record_frames import GROUP
from penstock.records.batch import read_head
from penstock.records.record import iterate
from tests.unit.server.asking import Asker

CONFIG = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": "4",
    # One step, one batch: a busy coordinator of Apache's puts the records of several into one.
    "group.coordinator.append.linger.ms": "0",
    "offsets.topic.num.partitions": "1",
}
WORDS = frozenset(
    (
        "assignment_timestamp",
        "commit_timestamp",
        "current_state_timestamp",
        "error_message",
        "throttle_time_ms",
        "timestamp",
        "version",
    )
)
"""Fields that two nodes need not have in common."""
HASHES = frozenset(("metadata_hash",))
"""They go over topic ids: compared is whether there is one."""

SETTLING_SECONDS = 0.5
"""After which Kafka's coordinator knows of a change to a topic."""


class Side:
    """One of the two brokers."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.ids: dict[str, bytes] = {}
        self.members: dict[str, str] = {}
        """What this side calls members that were given their ids by it."""

    def facts(self, part: Any) -> Any:
        """What an answer says, comparable with the other side's."""
        if isinstance(part, list):
            return sorted((self.facts(it) for it in part), key=repr)
        if isinstance(part, bytes) and len(part) == len(ZERO_UUID):
            return next((name for name, topic_id in self.ids.items() if topic_id == part), part)
        if isinstance(part, str):
            return next((name for name, given in self.members.items() if given == part), part)
        if isinstance(part, Part):
            return {
                it: bool(getattr(part, it)) if it in HASHES else self.facts(getattr(part, it))
                for it in part.__slots__
                if it not in WORDS
            }
        return part

    async def records(self, group_id: str) -> list[list[Any]]:
        """What the coordinator wrote for a group, batch by batch."""
        request = FetchRequest(
            max_bytes=1 << 24,
            topics=[
                FetchTopic(
                    topic="__consumer_offsets",
                    partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 24)],
                )
            ],
        )
        answer = await self.asker.ask(request, 12)
        data = memoryview(bytes(answer.responses[0].partitions[0].records))
        batches, at = [], 0
        while at < len(data):
            head = read_head(data, at)
            batch = [_record(it) for it in iterate(data[at : at + head.length + 12], 0)]
            mine = [
                it
                for it in batch
                if group_id in (getattr(it[0], "group_id", None), getattr(it[0], "group", None))
            ]
            if mine:
                batches.append(
                    sorted(
                        (
                            [type(key).__name__, self.facts(key), self.facts(value)]
                            for key, value in mine
                        ),
                        key=repr,
                    )
                )
            at += head.length + 12
        return batches


def _record(record: Any) -> tuple[Any, Any]:
    key = GROUP.read_key(record.key)
    value = None if record.value is None else GROUP.read_value(key.API_KEY, record.value)[0]
    return key, value


class Conversation:
    """A group on both sides."""

    def __init__(self, sides: list[Side], group_id: str) -> None:
        self.sides = sides
        self.group_id = group_id

    async def create(self, name: str, partitions: int) -> None:
        for side in self.sides:
            side.ids[name] = await side.asker.create(name, partitions)
        await asyncio.sleep(SETTLING_SECONDS)

    async def grow(self, name: str, count: int) -> None:
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        for side in self.sides:
            request = CreatePartitionsRequest(topics=[topic], timeout_ms=9000)
            assert not (await side.asker.ask(request, 3)).results[0].error_code
        await asyncio.sleep(SETTLING_SECONDS)

    async def delete(self, name: str) -> None:
        for side in self.sides:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=9000)
            assert not (await side.asker.ask(request, 6)).responses[0].error_code
        await asyncio.sleep(SETTLING_SECONDS)

    async def ready(self) -> None:
        """Wait until both sides coordinate the group."""
        for side in self.sides:
            find = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group_id])
            for _ in range(300):
                found = (await side.asker.ask(find, 4)).coordinators[0]
                asked = ConsumerGroupDescribeRequest(group_ids=[self.group_id])
                error = (await side.asker.ask(asked, 0)).groups[0].error_code
                if not found.error_code and error == ErrorCode.GROUP_ID_NOT_FOUND:
                    break
                await asyncio.sleep(0.05)
            else:
                raise AssertionError(f"nobody coordinates: {found}, {error}")

    async def say(
        self,
        member_id: str,
        epoch: int,
        owned: dict[str, list[int]] | None = None,
        version: int = 1,
        describe: bool = True,
        **fields: Any,
    ) -> Any:
        """One heartbeat to both; answers ours when all is equal."""
        if epoch == 0:
            fields = {"rebalance_timeout_ms": 30_000, **fields}
            owned = {} if owned is None else owned
        answers, groups = [], []
        for side in self.sides:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.group_id, member_id=member_id, member_epoch=epoch, **fields
            )
            if owned is not None:
                request.topic_partitions = [
                    ConsumerGroupHeartbeatRequestTopicPartitions(
                        topic_id=side.ids[name], partitions=numbers
                    )
                    for name, numbers in owned.items()
                ]
            answers.append(await side.asker.ask(request, version))
            groups.append(await self._described(side) if describe else [])
        self._compare(answers)
        self._compare(groups)
        return answers[1]

    async def compare_records(self) -> list[Any]:
        """Both have written the same; answers ours."""
        theirs, ours = [await side.records(self.group_id) for side in self.sides]
        assert ours == theirs
        return ours

    async def _described(self, side: Side) -> Any:
        asked = ConsumerGroupDescribeRequest(
            group_ids=[self.group_id], include_authorized_operations=True
        )
        return (await side.asker.ask(asked, 1)).groups

    def _compare(self, answers: list[Any]) -> None:
        theirs, ours = (side.facts(it) for side, it in zip(self.sides, answers, strict=True))
        assert ours == theirs

    async def classic(self, version: int, make: Callable[[Side], Message]) -> Any:
        """One request of the classic protocol to both."""
        answers = [await side.asker.ask(make(side), version) for side in self.sides]
        self._compare(answers)
        self._compare([await self._described(side) for side in self.sides])
        return answers[1]

    async def name(self, alias: str) -> None:
        """Have both sides give a new classic member its id."""
        for side in self.sides:
            answer = await side.asker.ask(self._join(side, "", ["x"], {}, None), 9)
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            side.members[alias] = answer.member_id

    async def join_static(self, alias: str, instance_id: str, topics: list[str]) -> Any:
        """A static member joins with the classic protocol and is given its id."""
        answers = []
        for side in self.sides:
            request = self._join(side, "", topics, {}, instance_id)
            answers.append(await side.asker.ask(request, 9))
            side.members[alias] = answers[-1].member_id
        self._compare(answers)
        return answers[1]

    def _join(
        self,
        side: Side,
        alias: str,
        topics: list[str],
        owned: dict[str, list[int]],
        instance_id: str | None,
    ) -> JoinGroupRequest:
        subscription = ConsumerProtocolSubscription(
            topics=topics,
            owned_partitions=[
                ConsumerProtocolSubscriptionTopicPartition(topic=name, partitions=numbers)
                for name, numbers in owned.items()
            ],
        )
        said = bytearray(b"\0\1")
        subscription.write(1, said)
        return JoinGroupRequest(
            group_id=self.group_id,
            member_id=side.members.get(alias, alias),
            group_instance_id=instance_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=20_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="mine", metadata=bytes(said))],
        )

    async def join(
        self,
        alias: str,
        topics: list[str],
        owned: dict[str, list[int]] | None = None,
        instance_id: str | None = None,
    ) -> Any:
        return await self.classic(
            9, lambda side: self._join(side, alias, topics, owned or {}, instance_id)
        )

    async def sync(
        self, alias: str, generation: int, assigned: dict[str, list[int]] | None = None
    ) -> Any:
        said = bytearray(b"\0\1")
        ConsumerProtocolAssignment(
            assigned_partitions=[
                ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=numbers)
                for name, numbers in (assigned or {}).items()
            ]
        ).write(1, said)
        return await self.classic(
            5,
            lambda side: SyncGroupRequest(
                group_id=self.group_id,
                member_id=side.members.get(alias, alias),
                generation_id=generation,
                protocol_type="consumer",
                protocol_name="mine",
                assignments=[]
                if assigned is None
                else [
                    SyncGroupRequestAssignment(
                        member_id=side.members.get(alias, alias), assignment=bytes(said)
                    )
                ],
            ),
        )

    async def beat(self, alias: str, generation: int) -> ErrorCode:
        answer = await self.classic(
            4,
            lambda side: HeartbeatRequest(
                group_id=self.group_id,
                member_id=side.members.get(alias, alias),
                generation_id=generation,
            ),
        )
        return ErrorCode(answer.error_code)

    async def commit(self, member_id: str, epoch: int, topic: str, *partitions: int) -> ErrorCode:
        """OffsetCommit to both; answers the error of the last partition."""

        def make(side: Side) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id=self.group_id,
                member_id=side.members.get(member_id, member_id),
                generation_id_or_member_epoch=epoch,
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic,
                        partitions=[
                            OffsetCommitRequestPartition(partition_index=it, committed_offset=1)
                            for it in partitions
                        ],
                    )
                ],
            )

        answer = await self.classic(9, make)
        return ErrorCode(answer.topics[0].partitions[-1].error_code)

    async def leave(self, *aliases: str) -> Any:
        return await self.classic(
            5,
            lambda side: LeaveGroupRequest(
                group_id=self.group_id,
                members=[MemberIdentity(member_id=side.members.get(it, it)) for it in aliases],
            ),
        )

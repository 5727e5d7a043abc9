"""Members that speak the protocol themselves, to any broker, and a transcript of all that was said.

Ids and times, which two brokers cannot have in common, are given names in it.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Awaitable, Iterator
from contextlib import AsyncExitStack
from typing import Any

from penstock.coordination.keys import shard_of
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.consumer_protocol import ConsumerProtocolSubscription
from penstock.protocol.generated.describe_groups import DescribeGroupsRequest
from penstock.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
from penstock.protocol.generated.heartbeat import HeartbeatRequest
from penstock.protocol.generated.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.generated.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.generated.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.message import Message
from penstock.protocol.record_frames import GROUP
from penstock.records.batch import batch_end
from penstock.records.record import Record, iterate
from tests.unit.server.asking import Asker, asking

OFFSETS = "__consumer_offsets"
SESSION_MS = 30_000
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def subscription(*topics: str) -> bytes:
    return struct.pack(">h", 1) + ConsumerProtocolSubscription(topics=list(topics)).encode(1)


class Scene:
    """One broker, a group of the scene's own, and the transcript."""

    def __init__(self, port: int, group: str, stack: AsyncExitStack) -> None:
        self.port = port
        self.group = group
        self.lines: list[str] = []
        self._stack = stack
        self._names: dict[str, str] = {}
        self._admin: Asker | None = None

    async def connect(self) -> Asker:
        return await self._stack.enter_async_context(asking(self.port))

    async def open(self) -> None:
        """Wait until the group has a coordinator."""
        self._admin = await self.connect()
        for _ in range(600):
            found = await self._admin.ask(FindCoordinatorRequest(key=self.group), 3)
            if found.error_code == 0:
                beat = await self._admin.ask(HeartbeatRequest(group_id=self.group), 4)
                if beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    return
            await asyncio.sleep(0.05)
        raise AssertionError("no coordinator")

    async def ask(self, request: Message, version: int, asker: Asker | None = None) -> Any:
        """Ask and write it down."""
        asker = asker or self._admin
        assert asker is not None
        answer = await asker.ask(request, version)
        self.note(answer, version)
        return answer

    def note(self, answer: Message, version: int | None = None) -> None:
        for listing in (answer, *getattr(answer, "groups", [])):
            if hasattr(listing, "members"):
                listing.members.sort(key=self._place)
        text = repr(answer)
        text = re.sub(r"error_message='[^']*'", "error_message=words", text)
        text = re.sub(r"current_state_timestamp=\d{13}", "current_state_timestamp=then", text)
        self.lines.append(UUID.sub(self._name, f"v{version}: {text}"))

    def _place(self, member: Any) -> tuple[str, str]:
        """Who is listed first is a hash table's secret: by name, then by who was heard of first."""
        found = UUID.search(member.member_id)
        known = "~" if found is None else self._names.get(found[0], "~")
        return UUID.sub("", member.member_id), known

    def _name(self, found: re.Match[str]) -> str:
        return self._names.setdefault(found[0], f"<{len(self._names)}>")

    # -- members ----------------------------------------------------------------------------------

    def join_request(self, member_id: str = "", **fields: Any) -> JoinGroupRequest:
        names = fields.pop("protocols", {"range": subscription("t")})
        return JoinGroupRequest(
            **{
                "group_id": self.group,
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": SESSION_MS,
                "member_id": member_id,
                "protocol_type": "consumer",
                "protocols": [
                    JoinGroupRequestProtocol(name=name, metadata=said)
                    for name, said in names.items()
                ],
                **fields,
            }
        )

    async def new_id(self, **fields: Any) -> str:
        answer = await self.ask(self.join_request(**fields), 9)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        member_id: str = answer.member_id
        return member_id

    async def joining(self, version: int, member_id: str = "", **fields: Any) -> Awaitable[Any]:
        """Ask to join on a connection of its own; the answer may take long."""
        asker = await self.connect()
        request = self.join_request(member_id, **fields)
        task = asyncio.get_running_loop().create_task(asker.ask(request, version))
        await asyncio.sleep(0.15)  # so that both brokers see the requests in this order
        return task

    async def joined(self, version: int, *waiting: Awaitable[Any]) -> list[Any]:
        answers = list(await asyncio.gather(*waiting))
        for answer in answers:
            self.note(answer, version)
        return answers

    def sync_request(self, member_id: str, generation: int, **fields: Any) -> SyncGroupRequest:
        work = fields.pop("work", {})
        return SyncGroupRequest(
            **{
                "group_id": self.group,
                "generation_id": generation,
                "member_id": member_id,
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": [
                    SyncGroupRequestAssignment(member_id=who, assignment=what)
                    for who, what in work.items()
                ],
                **fields,
            }
        )

    async def beat(self, member_id: str, generation: int, **fields: Any) -> int:
        request = HeartbeatRequest(
            group_id=self.group, member_id=member_id, generation_id=generation, **fields
        )
        answer = await self.ask(request, 4)
        error: int = answer.error_code
        return error

    async def leave(self, *members: tuple[str, str | None], version: int = 5) -> None:
        request = LeaveGroupRequest(
            group_id=self.group,
            members=[MemberIdentity(member_id=a, group_instance_id=b) for a, b in members],
        )
        await self.ask(request, version)

    async def describe(self, *versions: int) -> None:
        for version in versions:
            request = DescribeGroupsRequest(
                groups=[self.group], include_authorized_operations=version >= 3
            )
            assert self._admin is not None
            answer = await self._admin.ask(request, version)
            self.note(answer, version)

    async def stable(self, *instances: str | None, **fields: Any) -> list[str]:
        """A stable group; the leader's id first."""
        waiting = []
        for instance in instances:
            member_id = "" if instance else await self.new_id(**fields)
            waiting.append(await self.joining(9, member_id, group_instance_id=instance, **fields))
        answers = await self.joined(9, *waiting)
        ids = [it.member_id for it in answers]
        leader, generation = answers[-1].leader, answers[-1].generation_id
        work = dict.fromkeys(ids, b"work")
        for member_id, instance in sorted(
            zip(ids, instances, strict=True), key=lambda it: it[0] != leader
        ):
            given = work if member_id == leader else {}
            request = self.sync_request(
                member_id, generation, work=given, group_instance_id=instance
            )
            await self.ask(request, 5)
        return sorted(ids, key=lambda it: it != leader)

    # -- the log ----------------------------------------------------------------------------------

    async def records(self) -> None:
        """All that the log says about the group."""
        assert self._admin is not None
        about = await self._admin.ask(
            MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS)]), 12
        )
        topic = about.topics[0]
        index = shard_of(self.group, len(topic.partitions))
        request = FetchRequest(
            max_bytes=1 << 20,
            topics=[
                FetchTopic(
                    topic=OFFSETS,
                    partitions=[
                        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
                    ],
                )
            ],
        )
        answer = await self._admin.ask(request, 12)
        found = answer.responses[0].partitions[0]
        assert found.error_code == 0
        for record in _records(memoryview(found.records)):
            assert record.key is not None
            key = GROUP.read_key(record.key)
            if getattr(key, "group", "") != self.group:
                continue
            self.note(key)
            if record.value is not None:
                value, version = GROUP.read_value(key.API_KEY, record.value)
                self.note(value, version)


def _records(data: memoryview) -> Iterator[Record]:
    at = 0
    while at < len(data):
        yield from iterate(data, at)
        at = batch_end(data, at)

"""Members of groups, of both protocols, as a benchmark wants them: many, cheap and punctual."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable
from typing import Any

from bench.peer import Peer
from bench.rdkafka import ClientFailed
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from penstock.protocol.generated.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from penstock.protocol.generated.heartbeat import HeartbeatRequest
from penstock.protocol.generated.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.generated.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.generated.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

REBALANCE_MS_MAX = 30_000
_JOIN, _SYNC, _BEAT, _LEAVE, _CONSUMER_BEAT = 9, 5, 4, 5, 1


class Plan:
    """What all members of a group have in common."""

    def __init__(
        self, port: int, group: str, topic: str, topic_id: bytes, partitions: int,
        session_ms: int, beat_seconds: float,
    ) -> None:  # fmt: skip
        self.port = port
        self.group = group
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions
        self.session_ms = session_ms
        self.beat_seconds = beat_seconds
        self.changed: Callable[[], None] = lambda: None
        """Called whenever a member's part of the work changed."""


class Member:
    """One member: joins, sends heartbeats in its own beat, and does what the answers say."""

    def __init__(self, plan: Plan, phase: float) -> None:
        self.plan = plan
        self.epoch = 0
        """The generation of the group, or the member's epoch, that its assignment belongs to."""
        self.owned: frozenset[int] = frozenset()
        self.beaten_at = 0.0
        """When the last answered heartbeat was sent."""
        self._phase = phase * plan.beat_seconds
        self._peer: Peer | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Join, and go on in the background."""
        self._peer = await Peer.connect(self.plan.port)
        await self.join()
        self._task = asyncio.create_task(self._live())

    async def kill(self) -> None:
        """End without leaving the group."""
        await self.hush()
        assert self._peer is not None
        self._peer.close()

    async def hush(self) -> None:
        """Send no more heartbeats."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def stop(self) -> None:
        """Leave the group."""
        await self.hush()
        await self.leave()
        assert self._peer is not None
        self._peer.close()

    def check(self) -> None:
        """Raise what went wrong in the background."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def join(self) -> None:
        raise NotImplementedError

    async def beat(self) -> None:
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError

    async def _live(self) -> None:
        every = self.plan.beat_seconds
        while True:
            # On a grid that all members share: who beats when does not depend on the broker.
            now = time.monotonic()
            await asyncio.sleep(every - (now - self._phase) % every)
            await self.beat()

    async def _ask(self, request: Any, version: int) -> Any:
        assert self._peer is not None
        return await self._peer.ask(request, version)

    def _take(self, epoch: int, owned: frozenset[int]) -> None:
        if (epoch, owned) != (self.epoch, self.owned):
            self.epoch, self.owned = epoch, owned
            self.plan.changed()


class ClassicMember(Member):
    """Speaks JoinGroup, SyncGroup and Heartbeat; as leader it cuts the partitions into ranges."""

    def __init__(self, plan: Plan, phase: float) -> None:
        super().__init__(plan, phase)
        self._id = ""

    async def join(self) -> None:
        plan = self.plan
        subscription = b"\x00\x03" + ConsumerProtocolSubscription(topics=[plan.topic]).encode(3)
        while True:
            joined = await self._ask(
                JoinGroupRequest(
                    group_id=plan.group,
                    session_timeout_ms=plan.session_ms,
                    rebalance_timeout_ms=REBALANCE_MS_MAX,
                    member_id=self._id,
                    protocol_type="consumer",
                    protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
                ),
                _JOIN,
            )
            self._id = joined.member_id
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED or _passing(joined.error_code):
                continue
            _expect(joined.error_code, "JoinGroup")
            synced = await self._ask(
                SyncGroupRequest(
                    group_id=plan.group,
                    generation_id=joined.generation_id,
                    member_id=self._id,
                    protocol_type="consumer",
                    protocol_name="range",
                    assignments=self._assign(joined) if joined.leader == self._id else [],
                ),
                _SYNC,
            )
            if synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                continue
            _expect(synced.error_code, "SyncGroup")
            assignment, _ = ConsumerProtocolAssignment.read(bytes(synced.assignment), 0, 2)
            topics = assignment.assigned_partitions
            owned = frozenset(index for topic in topics for index in topic.partitions)
            self._take(joined.generation_id, owned)
            return

    def _assign(self, joined: Any) -> list[SyncGroupRequestAssignment]:
        ids = [member.member_id for member in joined.members]
        return [
            SyncGroupRequestAssignment(
                member_id=each,
                assignment=b"\x00\x00"
                + ConsumerProtocolAssignment(
                    assigned_partitions=[
                        ConsumerProtocolAssignmentTopicPartition(
                            topic=self.plan.topic,
                            partitions=list(range(at, self.plan.partitions, len(ids))),
                        )
                    ]
                ).encode(0),
            )
            for at, each in enumerate(ids)
        ]

    async def beat(self) -> None:
        begin = time.monotonic()
        request = HeartbeatRequest(
            group_id=self.plan.group, generation_id=self.epoch, member_id=self._id
        )
        answer = await self._ask(request, _BEAT)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            await self.join()
            return
        _expect(answer.error_code, "Heartbeat")
        self.beaten_at = begin

    async def leave(self) -> None:
        member = MemberIdentity(member_id=self._id)
        await self._ask(LeaveGroupRequest(group_id=self.plan.group, members=[member]), _LEAVE)


class ConsumerMember(Member):
    """Speaks ConsumerGroupHeartbeat: says what it owns whenever that has changed."""

    def __init__(self, plan: Plan, phase: float) -> None:
        super().__init__(plan, phase)
        self._id = uuid.uuid4().hex

    async def join(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.plan.group,
            member_id=self._id,
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_MS_MAX,
            subscribed_topic_names=[self.plan.topic],
            topic_partitions=[],
        )
        while not await self._say(request):
            pass

    async def beat(self) -> None:
        await self._say(self._request(self.epoch))

    async def leave(self) -> None:
        await self._ask(self._request(-1), _CONSUMER_BEAT)

    async def _say(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """A heartbeat, and one more as soon as there is something new to tell."""
        while True:
            begin = time.monotonic()
            answer = await self._ask(request, _CONSUMER_BEAT)
            if _passing(answer.error_code):
                return False
            _expect(answer.error_code, "ConsumerGroupHeartbeat")
            self.beaten_at = begin
            if answer.assignment is None:
                self._take(answer.member_epoch, self.owned)
                return True
            topics = answer.assignment.topic_partitions
            owned = frozenset(index for topic in topics for index in topic.partitions)
            self._take(answer.member_epoch, owned)
            request = self._request(self.epoch)
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(
                    topic_id=self.plan.topic_id, partitions=sorted(owned)
                )
            ]

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.plan.group,
            member_id=self._id,
            member_epoch=epoch,
            subscribed_topic_names=None,
            topic_partitions=None,
        )


def _passing(error: int) -> bool:
    """Whether the coordinator is only about to be ready."""
    return error in (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    )


def _expect(error: int, api: str) -> None:
    if error:
        raise ClientFailed(f"{api} was refused with {ErrorCode(error).name}")

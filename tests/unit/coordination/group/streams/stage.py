"""A shard on a stage, with members of a streams group to say things to it."""

from __future__ import annotations

from typing import Any

from penstock.coordination.group.consumer.heartbeat import Client
from penstock.coordination.group.streams.checks import check_heartbeat
from penstock.coordination.group.streams.group import StreamsGroup
from penstock.coordination.group.streams.heartbeat import Result, heartbeat, refused
from penstock.coordination.group.streams.tasks import Assignment
from penstock.protocol.generated.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from tests.unit.coordination.consumer import stage
from tests.unit.coordination.consumer.stage import GROUP_ID, Waiting

SESSION_MS, HEARTBEAT_MS, REBALANCE_MS = 45_000, 5_000, 30_000
CONFIG = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
CLIENT = Client("client", "/127.0.0.1")

Numbers = dict[str, list[int]]


class StreamsStage(stage.Stage):
    """Runs steps as the runtime does, but for the waiting: what is appended is committed."""

    def __init__(self, config: dict[str, str] | None = None) -> None:
        super().__init__({**CONFIG, **(config or {})})

    @property
    def group(self) -> StreamsGroup:  # type: ignore[override]
        group = self.shard.groups[GROUP_ID]
        assert isinstance(group, StreamsGroup)
        return group

    def beat(
        self,
        member_id: str,
        epoch: int,
        active: Numbers | None = None,
        standby: Numbers | None = None,
        **fields: Any,
    ) -> Result | None:
        """A heartbeat, and what comes of it; None if nothing does as the log refuses."""
        if epoch == 0:
            fields = {"rebalance_timeout_ms": REBALANCE_MS, "process_id": member_id, **fields}
            active = active or {}
        if active is not None:
            tasks = {"active_tasks": ids(active), "standby_tasks": ids(standby or {})}
            fields = {**tasks, "warmup_tasks": [], **fields}
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP_ID, member_id=member_id, member_epoch=epoch, **fields
        )
        refusal = check_heartbeat(request)
        if refusal is not None:
            return refused(refusal)
        ticket = Waiting()
        self.step(lambda at, out: heartbeat(self.shard, at, out, ticket, request, CLIENT))
        assert ticket.reply is None or isinstance(ticket.reply, Result)
        return ticket.reply

    def hear(
        self,
        member_id: str,
        epoch: int,
        active: Numbers | None = None,
        standby: Numbers | None = None,
        **fields: Any,
    ) -> StreamsGroupHeartbeatResponse:
        """A heartbeat, and its answer."""
        result = self.beat(member_id, epoch, active, standby, **fields)
        assert result is not None
        return result.response

    def enter(
        self, member_id: str, topology: Topology, **fields: Any
    ) -> StreamsGroupHeartbeatResponse:
        """A first heartbeat, which must succeed."""
        answer = self.hear(member_id, 0, topology=topology, **fields)
        assert answer.error_code == 0, answer
        return answer

    def calm(self) -> None:
        """Members report, and let go of what they must, until nothing changes."""
        for _ in range(10):
            for member_id in tuple(self.group.members):
                member = self.group.members[member_id]
                has = member.assigned.numbers()
                answer = self.hear(member_id, member.epoch, listed(has.active), listed(has.standby))
                assert answer.error_code == 0, answer

    def tasks(self, member_id: str) -> Assignment:
        """What a member has."""
        return self.group.members[member_id].assigned.numbers()


def ids(tasks: Numbers) -> list[StreamsGroupHeartbeatRequestTaskIds]:
    return [
        StreamsGroupHeartbeatRequestTaskIds(subtopology_id=it, partitions=list(numbers))
        for it, numbers in tasks.items()
    ]


def listed(tasks: Any) -> Numbers:
    """Tasks as members report them."""
    return {it: sorted(numbers) for it, numbers in tasks.items()}


def codes(answer: StreamsGroupHeartbeatResponse) -> list[int]:
    """What a member is told besides its tasks."""
    return [it.status_code for it in answer.status or ()]

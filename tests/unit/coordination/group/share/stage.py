"""A share group on a stage: its log is a list, its time moves when the test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.coordination.effects import Effects, Moment
from penstock.coordination.group.deleting import delete_group
from penstock.coordination.group.share.group import ShareGroup
from penstock.coordination.group.share.heartbeat import heartbeat
from penstock.coordination.group.share.initializing import Initialization, on_initialized
from penstock.coordination.group.share.readiness import Topics
from penstock.protocol.generated.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.coordination.consumer.stage import CLIENT, GROUP_ID, Stage, Waiting

SESSION_MS, HEARTBEAT_MS, RETRY_MS = 45_000, 5_000, 30_000

Held = dict[str, list[int]]


class ShareStage(Stage):
    """Share coordinators answer at once, unless `resolves` is false; and well, unless `fails`."""

    def __init__(self, config: dict[str, str] | None = None) -> None:
        super().__init__({"group.share.assignment.interval.ms": "0", **(config or {})})
        self.fails = False
        self.known: set[tuple[bytes, int]] = set()
        """What share coordinators have state for."""

    @property
    def shares(self) -> ShareGroup:
        group = self.shard.groups[GROUP_ID]
        assert isinstance(group, ShareGroup)
        return group

    def resolve(self) -> None:
        """Share coordinators answer the oldest errand."""
        errand: Any = self.errands.pop(0)
        assert isinstance(errand, Initialization)
        done, failed = ({}, errand.topics) if self.fails else (errand.topics, {})
        self.known |= {(it, number) for it in done for number in done[it].partitions}
        self.step(lambda _, out: on_initialized(self.shard, out, errand.group_id, done, failed))

    def say(self, member_id: str, epoch: int, *topics: str, **fields: Any) -> Any:  # type: ignore[override]
        """A heartbeat, and its answer; None if there is none as the log refuses."""
        if topics:
            fields["subscribed_topic_names"] = list(topics)
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP_ID, member_id=member_id, member_epoch=epoch, **fields
        )
        ticket = Waiting()
        self.step(lambda at, out: heartbeat(self.shard, at, out, ticket, request, CLIENT))
        return ticket.reply

    def beat(self, *member_ids: str) -> None:
        """Members that are fine say so."""
        for member_id in member_ids or tuple(self.shares.members):
            answer = self.say(member_id, self.shares.members[member_id].epoch)
            assert answer.error_code == 0, answer

    def has(self, member_id: str) -> Held:
        """What a member has been given."""
        return named(self.shares.members[member_id].assigned)

    def ready(self) -> tuple[Held, Held, list[str]]:
        """What is initializing, what is initialized, what is deleting."""
        ready = self.shares.readiness
        sides = (_listed(ready.initializing), _listed(ready.initialized))
        return *sides, sorted(ready.deleting.values())

    def delete(self) -> Any:
        """DeleteGroups, one step of it."""
        ticket = Waiting()
        self.step(lambda at, out: delete_group(self.shard, at, out, ticket, GROUP_ID))
        return ticket.reply

    def ask(self, act: Callable[[Moment, Effects], Any]) -> Any:
        """A step of another kind, and what it says."""
        said: list[Any] = []
        self.step(lambda at, out: said.append(act(at, out)))
        return said[0]

    def kinds(self) -> list[str]:
        """What was written since the last time, without the words that all have in common."""
        names = [type(it.key).__name__ for it in self.log[self._seen :]]
        names = [name.removeprefix("ShareGroup").removesuffix("Key") for name in names]
        tombs = [it.value is None for it in self.log[self._seen :]]
        self._seen = len(self.log)
        return [f"-{name}" if gone else name for name, gone in zip(names, tombs, strict=True)]

    _seen = 0


def named(partitions: Any) -> Held:
    """Partitions by the names of their topics."""
    return {
        topic_id.lstrip(b".").decode(): sorted(numbers) for topic_id, numbers in partitions.items()
    }


def _listed(topics: Topics) -> Held:
    return {topic.name: sorted(topic.partitions) for topic in topics.values()}

"""The cases of groups: how fast they settle, what commits cost, and what idle ones do."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Sequence
from functools import partial
from statistics import median
from typing import Any, TypeVar

import uvloop
from confluent_kafka import Consumer, TopicPartition

from bench.members import ClassicMember, ConsumerMember, Member, Plan
from bench.model import Case, Criterion, Kind, Measures, Scale, cpu
from bench.peer import Peer
from bench.process import Spent
from bench.rdkafka import ClientFailed
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
from penstock.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from tests.oracle.nodes import Node

MEMBERS = 50
PARTITIONS = 500
SESSION_MS = 1200
BEAT_SECONDS = 0.025
"""Not the seconds of a real client: these are the same for both brokers, and would be nearly all
that is measured."""

NODE_CONFIG = {
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(SESSION_MS // 3),
}
"""What a broker must allow for a killed member to be missed soon."""

TIMES = 3
"""One joins and one is killed, so often in a round."""

DEFAULT_BEATS: tuple[tuple[type[Member], float], ...] = (
    (ClassicMember, 3.0),
    (ConsumerMember, 5.0),
)
DEFAULT_SESSION_MS = 45_000
JOINING_AT_ONCE = 50
SETTLE_SECONDS_MAX = 60
_GROUP_RESOURCE, _SET = 32, 0
_Result = TypeVar("_Result")
_TOPIC = "bench-groups"


def settle(node: Node, _: Scale, *, kind: type[Member]) -> Measures:
    """A group that stands; one more member joins, and one is killed, a few times over."""
    return _run(_settle(node, kind))


async def _settle(node: Node, kind: type[Member]) -> Measures:
    joined, killed = [], []
    async with _planned(node, SESSION_MS, BEAT_SECONDS) as plan:
        group = Group(plan)
        group.members = [kind(plan, number / MEMBERS) for number in range(MEMBERS - 1)]
        await asyncio.gather(*(member.start() for member in group.members))
        await group.settled()
        for _ in range(TIMES):
            joined.append(await _join(group, kind(plan, (MEMBERS - 1) / MEMBERS)))
            # Everybody's last sign of life is then a heartbeat: the session counts from it.
            await asyncio.sleep(2 * BEAT_SECONDS)
            killed.append(await _kill(group, group.members[MEMBERS // 2]))
        await asyncio.gather(*(member.stop() for member in group.members))
    return {"joined": median(joined), "killed": median(killed)}


async def _join(group: Group, member: Member) -> float:
    """Seconds from a member's first request until the group has made room for it."""
    begin = await _next_beat()
    group.members = [*group.members, member]
    await member.start()
    return await group.settled() - begin


async def _kill(group: Group, victim: Member) -> float:
    """Seconds from the end of a killed member's session until the others have its partitions."""
    await victim.kill()
    group.members = [member for member in group.members if member is not victim]
    missed = victim.beaten_at + SESSION_MS / 1000
    return await group.settled() - missed


class Group:
    """Members, and the moment at which they share all partitions in the same generation."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._settled = asyncio.Event()
        self._settled_at = 0.0
        self.members: Sequence[Member] = []
        plan.changed = self._look

    async def settled(self) -> float:
        """When it was that nothing was left to do."""
        self._look()
        try:
            async with asyncio.timeout(SETTLE_SECONDS_MAX):
                while not self._settled.is_set():
                    for member in self.members:
                        member.check()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._settled.wait(), 1)
        except TimeoutError:
            owned = sum(len(member.owned) for member in self.members)
            raise ClientFailed(f"{owned} of {PARTITIONS} partitions are owned") from None
        return self._settled_at

    def _look(self) -> None:
        # Epochs begin above zero: one that has not joined yet is not of the same epoch.
        epochs = {member.epoch for member in self.members}
        owned = sum(len(member.owned) for member in self.members)
        if len(epochs) == 1 and 0 not in epochs and owned == self._plan.partitions:
            if not self._settled.is_set():
                self._settled_at = time.monotonic()
                self._settled.set()
        else:
            self._settled.clear()


def commits(node: Node, scale: Scale) -> Measures:
    """One consumer commits one partition's offset, again and again, waiting for each answer."""
    _run(_ready(node))
    group = f"bench-{uuid.uuid4().hex[:8]}"
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(_TOPIC, 0, 0)], asynchronous=False)  # connects
    spent, begin = Spent.now(node.pid), time.monotonic()
    for number in range(scale.commits):
        consumer.commit(offsets=[TopicPartition(_TOPIC, 0, number)], asynchronous=False)
    seconds, used = time.monotonic() - begin, spent.since()
    [kept] = consumer.committed([TopicPartition(_TOPIC, 0)], 30)
    consumer.close()
    if kept.offset != scale.commits - 1:
        raise ClientFailed(f"{kept.offset} is committed instead of {scale.commits - 1}")
    return {"cpu": used, "rate": scale.commits / seconds}


def idle(node: Node, scale: Scale) -> Measures:
    """Groups of one member each, on a connection each: with their heartbeats, then without."""
    return _run(_idle(node, scale))


async def _idle(node: Node, scale: Scale) -> Measures:
    await _ready(node)
    topic_id = await _topic(node)
    members: list[Member] = []
    prefix = uuid.uuid4().hex[:8]
    for number in range(scale.idle_groups):
        kind, beat = DEFAULT_BEATS[number % len(DEFAULT_BEATS)]
        group = f"{prefix}-{number}"
        plan = Plan(node.port, group, _TOPIC, topic_id, PARTITIONS, DEFAULT_SESSION_MS, beat)
        members.append(kind(plan, number / scale.idle_groups))
    for at in range(0, len(members), JOINING_AT_ONCE):
        await asyncio.gather(*(each.start() for each in members[at : at + JOINING_AT_ONCE]))
    await asyncio.sleep(1)
    beating = await _load(node, scale.idle_seconds)
    for member in members:
        member.check()
        await member.hush()
    silent = await _load(node, scale.idle_seconds)
    await asyncio.gather(*(member.stop() for member in members))
    return {"beating": beating, "silent": silent}


async def _load(node: Node, seconds: float) -> float:
    """The broker's CPU per second, from now on."""
    spent, begin = Spent.now(node.pid), time.monotonic()
    await asyncio.sleep(seconds)
    return spent.since() / (time.monotonic() - begin)


@contextlib.asynccontextmanager
async def _planned(node: Node, session_ms: int, beat: float) -> AsyncIterator[Plan]:
    """A group that does not exist yet, over a topic that does."""
    await _ready(node)
    topic_id = await _topic(node)
    group = f"bench-{uuid.uuid4().hex[:8]}"
    configs = {
        "consumer.session.timeout.ms": session_ms,
        "consumer.heartbeat.interval.ms": session_ms // 3,
        # The interval batches assignments; here every one is waited for.
        "consumer.assignment.interval.ms": 0,
    }
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=_GROUP_RESOURCE,
                resource_name=group,
                configs=[
                    AlterableConfig(name=name, config_operation=_SET, value=str(value))
                    for name, value in configs.items()
                ],
            )
        ]
    )
    answer = await _ask(node, request, 1)
    if answer.responses[0].error_code:
        raise ClientFailed(f"no settings for the group: {answer.responses[0]}")
    yield Plan(node.port, group, _TOPIC, topic_id, PARTITIONS, session_ms, beat)


async def _ready(node: Node) -> None:
    """Wait until the coordinators' topic and ours are there."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["bench"])
    while (await _ask(node, request, 4)).coordinators[0].error_code:
        if time.monotonic() > deadline:
            raise ClientFailed(f"{node.name} has no coordinator")
        await asyncio.sleep(0.05)
    topic = CreatableTopic(name=_TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    made = await _ask(node, CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    error = made.topics[0].error_code
    if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise ClientFailed(f"{node.name} refused to create a topic with error {error}")
    while not await _led(node):
        await asyncio.sleep(0.05)


async def _led(node: Node) -> bool:
    [topic] = (await _metadata(node)).topics
    partitions = topic.partitions
    return len(partitions) == PARTITIONS and all(each.leader_id >= 0 for each in partitions)


async def _topic(node: Node) -> bytes:
    topic_id: bytes = (await _metadata(node)).topics[0].topic_id
    return topic_id


async def _metadata(node: Node) -> Any:
    return await _ask(node, MetadataRequest(topics=[MetadataRequestTopic(name=_TOPIC)]), 12)


async def _ask(node: Node, request: Any, version: int) -> Any:
    peer = await Peer.connect(node.port)
    try:
        return await peer.ask(request, version)
    finally:
        peer.close()


async def _next_beat() -> float:
    """Wait for the members' next common beat, so that every round joins at the same point."""
    await asyncio.sleep(BEAT_SECONDS - time.monotonic() % BEAT_SECONDS)
    return time.monotonic()


def _run(work: Coroutine[Any, Any, _Result]) -> _Result:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def _settle_case(name: str, title: str, kind: type[Member]) -> Case:
    return Case(
        f"settle-{name}", f"{MEMBERS} consumers, {PARTITIONS} partitions, {title}",
        partial(settle, kind=kind),
        (Criterion("joined", "settled after one joins", "s", Kind.RATIO_MAX, 1.0),
         Criterion("killed", "settled after one is missed", "s", Kind.RATIO_MAX, 1.0)),
    )  # fmt: skip


CASES = [
    _settle_case("classic", "classic protocol", ClassicMember),
    _settle_case("consumer", "new protocol", ConsumerMember),
    Case("commits", "20,000 offset commits", commits, (cpu(1 / 2),)),
    Case(
        "idle", "a thousand idle groups, half of each protocol", idle,
        (Criterion("beating", "broker CPU per second, heartbeats at default intervals", "s",
                   Kind.OWN_MAX, 0.01),
         Criterion("silent", "broker CPU per second between heartbeats", "s",
                   Kind.OWN_MAX, 0.01)),
        warm_ups=0,
    ),
]  # fmt: skip

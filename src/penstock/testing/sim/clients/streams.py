"""A member of a streams group: a thread of a small application that counts words.

It reads a topic, hands words on by a repartition topic and counts them with a changelog; so there
are two tasks for each partition, and two internal topics that the coordinator has made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.model.errors import ErrorCode
from penstock.net.peer import PeerLost
from penstock.protocol.generated.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    Subtopology,
    TopicInfo,
    Topology,
)
from penstock.testing.sim.clients.streams_ledger import Given, Task, TaskLedger
from penstock.testing.sim.clients.talk import GROUP, Address, Talk
from penstock.testing.sim.clients.violation import Violation

REBALANCE_MS = 3_000
DEAD_SECONDS = (0.5, 6.0)
STOP_MS = (0, 1200)
"""How long it takes to let tasks go."""
DEAF = 0.2
"""How often an answer gets lost that was given, in troubled times."""
JOINING, LEAVING = 0, -1

FENCED = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
ELSEWHERE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


def handed_on(source: str) -> str:
    """The repartition topic of the application."""
    return f"{source}-handed-on"


def changelog(source: str) -> str:
    """Where its counts are kept."""
    return f"{source}-changelog"


def word_count(source: str) -> Topology:
    """What members tell of the application."""
    compacted = KeyValue(key="cleanup.policy", value="compact")
    reads = Subtopology(
        subtopology_id="0",
        source_topics=[source],
        repartition_sink_topics=[handed_on(source)],
    )
    counts = Subtopology(
        subtopology_id="1",
        repartition_source_topics=[TopicInfo(name=handed_on(source))],
        state_changelog_topics=[TopicInfo(name=changelog(source), topic_configs=[compacted])],
        copartition_groups=[CopartitionGroup(repartition_source_topics=[0])],
    )
    return Topology(epoch=0, subtopologies=[reads, counts])


class StreamsThread:
    """Reports, lets tasks go when it is told to, and takes those that it is given.

    In troubled times it sometimes dies, or leaves, and comes back as another member, and answers to
    it get lost more often than others; when it is `calm` it stays.
    """

    def __init__(
        self,
        talk: Talk,
        group: str,
        source: str,
        ledger: TaskLedger,
        epoch_at: Callable[[Address], int],
    ) -> None:
        self.calm = False
        self.stopping = False
        self.reports = 0
        """How often it was told that it is a member."""
        self._talk = talk
        self._group = group
        self._topology = word_count(source)
        self._ledger = ledger
        self._epoch_at = epoch_at
        """In which epoch of the group's shard a node believes at this moment; -1 if it is down."""
        self._life = 0
        self._epoch = JOINING
        self._active: set[Task] = set()
        self._standby: set[Task] = set()
        self._says_all = True
        """Whether the coordinator may not know what it has."""
        self._wait_seconds = 0.0

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def _member_id(self) -> str:
        return f"{self._talk.name}.{self._life}"

    async def run(self) -> None:
        """Live, and live again."""
        while not self.stopping:
            await asyncio.sleep(self._wait_seconds)
            if not self.calm and self._epoch != JOINING and self._talk.dice.random() < 0.04:
                await self._end()
            try:
                await self._report()
            except PeerLost:
                # It may have been heard, or not.
                self._says_all = True
                self._talk.doubt_coordinator(GROUP, self._group)
                await self._talk.pause()

    async def _end(self) -> None:
        """Die, or say goodbye; come back after a while as another member, or as the same one."""
        dice = self._talk.dice
        if dice.random() < 0.3:
            request = self._request(LEAVING)
            self._forget()
            try:
                await self._talk.coordinate(GROUP, self._group, request)
            except PeerLost:
                pass  # then its session ends by itself
        self._forget()
        await asyncio.sleep(dice.uniform(*DEAD_SECONDS))
        self._life += dice.random() < 0.7

    def _forget(self) -> None:
        self._ledger.lost(self._member_id)
        self._epoch = JOINING
        self._active.clear()
        self._standby.clear()
        self._says_all = True

    # -- reporting --------------------------------------------------------------------------------

    async def _report(self) -> None:
        address = await self._talk.coordinator_of(GROUP, self._group)
        if self._epoch == JOINING:
            self._forget()
        request, sent = self._request(self._epoch), self._now
        coordinator_epoch = self._epoch_at(address)
        try:
            answer = await self._talk.ask(address, request)
            if not self.calm and self._talk.dice.random() < DEAF:
                raise PeerLost("it was given up a moment before")
        except PeerLost:
            self._ledger.owe(self._member_id, sent)
            raise
        error = ErrorCode(answer.error_code)
        if not error:
            await self._take(answer, request, sent, address, coordinator_epoch)
        elif error in FENCED:
            self._forget()
        elif error in ELSEWHERE or error.retriable:
            self._says_all = True
            self._talk.doubt_coordinator(GROUP, self._group)
            await self._talk.pause()
        else:
            raise Violation(f"{self._member_id} was told {error.name}: {answer.error_message}")

    def _request(self, epoch: int) -> StreamsGroupHeartbeatRequest:
        request = StreamsGroupHeartbeatRequest(
            group_id=self._group, member_id=self._member_id, member_epoch=epoch
        )
        if epoch == JOINING:
            request.topology = self._topology
            request.rebalance_timeout_ms = REBALANCE_MS
            request.process_id = self._talk.name
        if epoch == JOINING or (epoch > 0 and self._says_all):
            request.active_tasks = _ids(self._active)
            request.standby_tasks = _ids(self._standby)
            request.warmup_tasks = []
        return request

    async def _take(
        self,
        answer: Any,
        request: StreamsGroupHeartbeatRequest,
        sent: float,
        address: Address,
        coordinator_epoch: int,
    ) -> None:
        member, dice = self._member_id, self._talk.dice
        if request.member_epoch != JOINING:
            self._ledger.lives(member, answer.member_epoch, sent, coordinator_epoch)
        self._ledger.hear(member, sent, coordinator_epoch)
        self.reports += 1
        self._epoch = answer.member_epoch
        self._says_all = dice.random() < 0.1
        self._wait_seconds = answer.heartbeat_interval_ms / 1000
        if answer.active_tasks is None:
            if request.active_tasks is not None:
                self._ledger.owe_nothing(member)
            return
        self._ledger.owe(member, sent)
        active = _tasks(answer.active_tasks)
        given = Given(member, self._now, self._epoch_at(address))
        if self._active - active:
            await asyncio.sleep(dice.randint(*STOP_MS) / 1000)
            self._wait_seconds = 0.0
        self._ledger.give(member, active, sent, given)
        self._active, self._standby = active, _tasks(answer.standby_tasks or [])
        self._says_all = True


def _ids(tasks: set[Task]) -> list[StreamsGroupHeartbeatRequestTaskIds]:
    return [
        StreamsGroupHeartbeatRequestTaskIds(
            subtopology_id=subtopology,
            partitions=sorted(number for it, number in tasks if it == subtopology),
        )
        for subtopology in sorted({it for it, _ in tasks})
    ]


def _tasks(ids: list[Any]) -> set[Task]:
    return {(it.subtopology_id, number) for it in ids for number in it.partitions}

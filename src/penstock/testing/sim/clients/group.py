"""A group of one that commits its position and asks for it: what was committed stays so."""

from __future__ import annotations

import asyncio

from penstock.model.errors import ErrorCode
from penstock.net.peer import PeerLost
from penstock.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.message import Message
from penstock.testing.history.operations import Commit, Committed, Place
from penstock.testing.history.recorder import Recorder
from penstock.testing.sim.clients.talk import GROUP, LOST, Talk

NOT_HERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
CERTAIN = (*NOT_HERE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
TRIES_MAX = 25


class Committer:
    """Commits rising offsets of one partition, and now and then asks how far it came."""

    def __init__(self, talk: Talk, group: str, place: Place, recorder: Recorder) -> None:
        self.stopping = False
        self.acknowledged = 0
        self._talk = talk
        self._group = group
        self._place = place
        self._recorder = recorder
        self._offset = 0

    async def run(self) -> None:
        """Commit on and on."""
        await self._learn_topic()
        while not self.stopping:
            await asyncio.sleep(self._talk.dice.randint(50, 400) / 1000)
            self._offset += 1
            await self._commit()
            if self._talk.dice.random() < 0.3:
                await self.look()

    async def _learn_topic(self) -> None:
        _, led = await self._talk.leader_of(self._place)
        self._topic_id = led.topic_id

    async def _commit(self) -> None:
        commit = self._recorder.begin(
            Commit(
                topic=self._place.topic,
                partition=self._place.partition,
                group=self._group,
                offset=self._offset,
            )
        )
        request = OffsetCommitRequest(
            group_id=self._group,
            topics=[
                OffsetCommitRequestTopic(
                    name=self._place.topic,
                    topic_id=self._topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=self._place.partition, committed_offset=self._offset
                        )
                    ],
                )
            ],
        )
        certain = True
        for _ in range(TRIES_MAX):
            error = await self._ask(request)
            if not error:
                self._recorder.ok(commit)
                self.acknowledged += 1
                return
            certain = certain and error in CERTAIN
            await self._talk.pause()
        if certain:
            self._recorder.failed(commit, error.name)
        else:
            self._recorder.unknown(commit, error.name)

    async def _ask(self, request: Message) -> ErrorCode:
        try:
            answer = await self._talk.coordinate(GROUP, self._group, request)
        except PeerLost:
            return LOST
        error = ErrorCode(answer.topics[0].partitions[0].error_code)
        if error in NOT_HERE:
            self._talk.doubt_coordinator(GROUP, self._group)
        return error

    async def look(self) -> None:
        """Ask for the position, and note it if there is an answer."""
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=self._group,
                    topics=[
                        OffsetFetchRequestTopics(
                            name=self._place.topic,
                            topic_id=self._topic_id,
                            partition_indexes=[self._place.partition],
                        )
                    ],
                )
            ]
        )
        began = self._recorder.now()
        try:
            answer = (await self._talk.coordinate(GROUP, self._group, request)).groups[0]
        except PeerLost:
            return
        if answer.error_code:
            self._talk.doubt_coordinator(GROUP, self._group)
            return
        found = answer.topics[0].partitions[0]
        if not found.error_code:
            self._recorder.note(
                Committed(
                    topic=self._place.topic,
                    partition=self._place.partition,
                    group=self._group,
                    offset=found.committed_offset,
                ),
                began,
            )

"""An operator at work while all else happens: topics come and go, partitions move, leaders too."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.net.peer import PeerLost
from penstock.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.generated.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.message import Message
from penstock.testing.history.operations import Place
from penstock.testing.sim.clients.talk import Talk

PREFERRED = 0
TIMEOUT_MS = 2_000


class Operator:
    """Asks for one change after the other; what is refused is not asked for again."""

    def __init__(self, talk: Talk, places: Sequence[Place], brokers: Sequence[int]) -> None:
        self.stopping = False
        self._talk = talk
        self._places = places
        self._brokers = list(brokers)
        self._made = 0

    async def run(self) -> None:
        """Change something now and then."""
        kinds = (self._create, self._delete, self._move, self._move, self._elect)
        while not self.stopping:
            await asyncio.sleep(self._talk.dice.uniform(0.3, 1.5))
            await self._ask(self._talk.dice.choice(kinds)())

    async def _ask(self, request: Message) -> None:
        try:
            await self._talk.ask(self._talk.any_broker(), request)
        except PeerLost:
            pass  # it may have been done, or not: whoever looks will see

    def _create(self) -> Message:
        self._made += 1
        topic = CreatableTopic(name=self._name(), num_partitions=1, replication_factor=-1)
        return CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)

    def _delete(self) -> Message:
        return DeleteTopicsRequest(
            topics=[DeleteTopicState(name=self._name())], timeout_ms=TIMEOUT_MS
        )

    def _name(self) -> str:
        return f"made-{self._made}"

    def _move(self) -> Message:
        dice = self._talk.dice
        count = dice.randint(2, len(self._brokers))
        place, replicas = dice.choice(self._places), dice.sample(self._brokers, count)
        wanted = ReassignablePartition(partition_index=place.partition, replicas=replicas)
        return AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS,
            topics=[ReassignableTopic(name=place.topic, partitions=[wanted])],
        )

    def _elect(self) -> Message:
        place = self._talk.dice.choice(self._places)
        wanted = TopicPartitions(topic=place.topic, partitions=[place.partition])
        return ElectLeadersRequest(
            election_type=PREFERRED, topic_partitions=[wanted], timeout_ms=TIMEOUT_MS
        )

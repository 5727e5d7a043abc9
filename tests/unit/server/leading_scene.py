"""A node that leads, and a follower that it believes in: the test itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.app.node import Node
from penstock.metadata.cluster import BrokerImage, ClusterImage
from penstock.metadata.image import PARTS, MetadataImage
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from penstock.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from penstock.replica.partition import Partition
from penstock.server.broker import Broker
from tests.unit.server.asking import Asker, asking, port_of, running_node

FETCH, PRODUCE = 1, 0
VERSION = 18
OWN, FOLLOWER, STRANGER = 1, 2, 9
EPOCH = 77
"""The follower's broker epoch."""
LONG_MS = 10_000
SOON = 2.0
"""Seconds: sooner than any long poll here ends by itself."""


class Decider:
    """A controller that decides about in-sync sets as the test tells it."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.asked: list[AlterPartitionRequest] = []
        self.errors: list[ErrorCode] = []
        """For the next requests, one each; then they succeed."""

    async def handle(self, api_key: int, request: Any, **circumstances: Any) -> Any:
        if api_key != AlterPartitionRequest.API_KEY:
            return await self._real.handle(api_key, request, **circumstances)
        self.asked.append(request)
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        await asyncio.sleep(0)
        return AlterPartitionResponse(
            topics=[
                AlterPartitionResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        AlterPartitionResponsePartitionData(
                            partition_index=each.partition_index,
                            error_code=error,
                            leader_id=OWN,
                            leader_epoch=each.leader_epoch,
                            isr=[member.broker_id for member in each.new_isr_with_epochs],
                            partition_epoch=each.partition_epoch + 1,
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


class Scene:
    """A node that leads topic t, and the follower that the node believes in."""

    def __init__(self, node: Node, producer: Asker, follower: Asker, topic_id: bytes) -> None:
        self.broker: Broker = node.broker
        self.producer = producer
        self.asker = follower
        self.topic_id = topic_id
        self.decider = Decider(self.broker.controller)
        self.broker.controller = self.decider
        self.know(FOLLOWER)

    def partition(self, index: int = 0) -> Partition:
        return self.broker.hosted["t", index]

    def know(self, node_id: int, **state: Any) -> None:
        """Let the node hear of another broker."""
        image = self.broker.image
        state.setdefault("fenced", False)
        brokers = {
            **image.cluster.brokers,
            node_id: BrokerImage(node_id, b"i" * 16, EPOCH, (), {}, **state),
        }
        parts = {name: getattr(image, name) for name in PARTS}
        parts["cluster"] = ClusterImage(brokers, image.cluster.controllers)
        self.broker.image = MetadataImage(image.offset, image.epoch, **parts)
        self.broker.isr_changes.peers.brokers = brokers

    def lead(self, isr: tuple[int, ...], index: int = 0, epoch: int = 1) -> Partition:
        partition = self.partition(index)
        partition.lead(
            epoch,
            isr,
            (OWN, FOLLOWER),
            partition_epoch=10,
            now=self.broker.clock.monotonic(),
        )
        return partition

    def request(self, *offsets: int, **options: Any) -> FetchRequest:
        """A follower's fetch from these offsets, one for each partition."""
        replica_id = options.pop("replica_id", FOLLOWER)
        epoch = options.pop("epoch", EPOCH)
        leader_epoch = options.pop("leader_epoch", 1)
        start = options.pop("start", 0)
        return FetchRequest(
            replica_state=ReplicaState(replica_id=replica_id, replica_epoch=epoch),
            topics=[
                FetchTopic(
                    topic_id=self.topic_id,
                    partitions=[
                        FetchPartition(
                            partition=index,
                            fetch_offset=offset,
                            current_leader_epoch=leader_epoch,
                            log_start_offset=start,
                            partition_max_bytes=1 << 20,
                        )
                        for index, offset in enumerate(offsets)
                    ],
                )
            ]
            if offsets
            else [],
            **{"min_bytes": 1, "max_wait_ms": 0, "max_bytes": 1 << 24, **options},
        )

    async def fetch(self, *offsets: int, **options: Any) -> Any:
        """The answer for each partition of a follower's fetch."""
        response = await self.asker.ask(self.request(*offsets, **options), VERSION)
        assert not response.error_code, response
        found = [part for topic in response.responses for part in topic.partitions]
        return found[0] if len(offsets) == 1 and found else found

    async def parked(self, count: int = 1) -> None:
        async with asyncio.timeout(5):
            while self.broker.parked_fetches != count:
                await asyncio.sleep(0.002)


@asynccontextmanager
async def leading_node(directory: Path) -> AsyncIterator[Scene]:
    """A node in the test's own event loop, and connections to it."""
    async with (
        running_node(directory, {"replica.lag.time.max.ms": "30000"}) as node,
        asking(port_of(node)) as producer,
        asking(port_of(node)) as follower,
    ):
        topic_id = await producer.create("t", 3)
        yield Scene(node, producer, follower, topic_id)

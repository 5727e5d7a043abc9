"""Takes batches of dead letters to their partition: here, or as Produce requests to its leader."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.replica.partition import Appended
from penstock.replica.transactions import NOT_TRANSACTIONAL
from penstock.server.rounds import Rounds, error_of

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage
    from penstock.protocol.generated.produce import ProduceResponse
    from penstock.server.broker import Broker

PURPOSE = "letters"
"""A connection of their own: each answer waits for in-sync replicas."""

BYTES_PER_REQUEST = 4 * 1024 * 1024
"""After which no further batch is put into a request."""

ALL = -1
"""Acknowledged when all replicas in sync have it."""


class Post(NamedTuple):
    """A batch for one partition, and who wants to know what came of it."""

    topic: str
    topic_id: bytes
    partition: int
    batch: bytes
    answer: asyncio.Future[ErrorCode]


class LetterPost:
    """Brings batches to where they belong, and tells when they are committed."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._timeout_ms = broker.config.get_int("request.timeout.ms")
        self._rounds: Rounds[Post] = Rounds(broker, PURPOSE, self)

    async def send(self, topic: str, index: int, batch: bytes) -> ErrorCode:
        """NONE when it is committed; else nobody knows whether it will be."""
        broker = self._broker
        found = broker.image.topics.by_name.get(topic)
        partition = None if found is None else found.partitions.get(index)
        if found is None or partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader < 0:
            return ErrorCode.LEADER_NOT_AVAILABLE
        if partition.leader == broker.node_id:
            return await self._append_here(topic, index, batch)
        answer: asyncio.Future[ErrorCode] = broker.loop.create_future()
        self._rounds.add(partition.leader, Post(topic, found.id, index, batch, answer))
        return await answer

    def on_image(self, image: MetadataImage) -> None:
        """Brokers may be gone."""
        self._rounds.on_image(image)

    def close(self) -> None:
        """The node stops."""
        self._rounds.close()

    async def _append_here(self, topic: str, index: int, batch: bytes) -> ErrorCode:
        broker = self._broker
        partition = broker.hosted.get((topic, index))
        if partition is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition.under_min:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        records = memoryview(bytearray(batch))
        result = partition.append(records, broker.clock.now(), NOT_TRANSACTIONAL)
        if not isinstance(result, Appended):
            return getattr(result, "error", ErrorCode.UNKNOWN_SERVER_ERROR)
        committed: asyncio.Future[ErrorCode] = broker.loop.create_future()
        partition.await_commit(result.end_offset, committed)
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await committed
        except TimeoutError:
            return ErrorCode.REQUEST_TIMED_OUT

    # -- the trade --------------------------------------------------------------------------------

    def compose(self, items: list[Post]) -> tuple[ProduceRequest, list[Post]]:
        """One batch for each partition: two would have to be told apart."""
        taken: dict[tuple[str, int], Post] = {}
        size = 0
        for post in items:
            if size and size + len(post.batch) > BYTES_PER_REQUEST:
                break
            if (post.topic, post.partition) not in taken:
                taken[post.topic, post.partition] = post
                size += len(post.batch)
        topics: dict[tuple[str, bytes], list[PartitionProduceData]] = {}
        for post in taken.values():
            data = PartitionProduceData(index=post.partition, records=memoryview(post.batch))
            topics.setdefault((post.topic, post.topic_id), []).append(data)
        request = ProduceRequest(
            acks=ALL,
            timeout_ms=self._timeout_ms,
            topic_data=[
                TopicProduceData(name=name, topic_id=topic_id, partition_data=data)
                for (name, topic_id), data in topics.items()
            ],
        )
        return request, list(taken.values())

    def settle(self, items: list[Post], answer: ProduceResponse | None) -> None:
        """Tell each what came of its batch."""
        told: dict[tuple[str, int], ErrorCode] = {}
        names = {post.topic_id: post.topic for post in items}
        for topic in () if answer is None else answer.responses:
            name = topic.name or names.get(topic.topic_id, "")  # by id from version 13 on
            for each in topic.partition_responses:
                told[name, each.index] = error_of(each.error_code)
        for post in items:
            if not post.answer.done():
                place = post.topic, post.partition
                post.answer.set_result(told.get(place, ErrorCode.NETWORK_EXCEPTION))

"""What a follower asks its leader: Fetch, from version 13 on, and ListOffsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.model.config.node import NodeConfig
from penstock.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from penstock.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.replica.fetch_session import Key, LeaderSession
from penstock.replica.fetching import Ask

LATEST, EARLIEST = -1, -2

Named = tuple[str, int]
"""A partition by its topic's name, as ListOffsets knows it."""


class FetchLimits(NamedTuple):
    """How much a fetch may bring, and how long it may wait for it."""

    wait_ms_max: int
    bytes_min: int
    bytes_max: int
    partition_bytes_max: int

    @classmethod
    def of(cls, config: NodeConfig) -> FetchLimits:
        return cls(
            config.get_int("replica.fetch.wait.max.ms"),
            config.get_int("replica.fetch.min.bytes"),
            config.get_int("replica.fetch.response.max.bytes"),
            config.get_int("replica.fetch.max.bytes"),
        )


def fetch_request(
    node_id: int,
    broker_epoch: int,
    session: LeaderSession,
    named: Mapping[Key, Ask],
    forgotten: Iterable[Key],
    limits: FetchLimits,
) -> FetchRequest:
    """The next fetch of a session."""
    return FetchRequest(
        replica_state=ReplicaState(replica_id=node_id, replica_epoch=broker_epoch),
        max_wait_ms=limits.wait_ms_max,
        min_bytes=limits.bytes_min,
        max_bytes=limits.bytes_max,
        session_id=session.id,
        session_epoch=session.epoch,
        topics=_topics(named, limits.partition_bytes_max),
        forgotten_topics_data=_forgotten(forgotten),
    )


def _topics(named: Mapping[Key, Ask], size_max: int) -> list[FetchTopic]:
    topics: dict[bytes, FetchTopic] = {}
    for (topic_id, index), (offset, last_epoch, leader_epoch, log_start) in named.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=last_epoch,
                log_start_offset=log_start,
                partition_max_bytes=size_max,
            )
        )
    return list(topics.values())


def _forgotten(keys: Iterable[Key]) -> list[ForgottenTopic]:
    topics: dict[bytes, ForgottenTopic] = {}
    for topic_id, index in keys:
        topic = topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id))
        topic.partitions.append(index)
    return list(topics.values())


def offsets_request(
    node_id: int, epochs: Iterable[tuple[Named, int]], timestamp: int
) -> ListOffsetsRequest:
    """Where partitions begin (EARLIEST) or end (LATEST), in these leader epochs."""
    topics: dict[str, ListOffsetsTopic] = {}
    for (name, index), leader_epoch in epochs:
        topic = topics.setdefault(name, ListOffsetsTopic(name=name))
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=index, current_leader_epoch=leader_epoch, timestamp=timestamp
            )
        )
    return ListOffsetsRequest(replica_id=node_id, topics=list(topics.values()))


def offsets_in(response: ListOffsetsResponse) -> dict[Named, int]:
    """What a leader told; partitions with an error are left out."""
    return {
        (topic.name, data.partition_index): data.offset
        for topic in response.topics
        for data in topic.partitions
        if not data.error_code
    }

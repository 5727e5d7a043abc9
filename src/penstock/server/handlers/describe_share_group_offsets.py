"""DescribeShareGroupOffsets, versions 0 and 1: where share groups are in their partitions.

Without topics all partitions count that the group has state for. A partition without state, or that
does not exist, begins at -1, which is no error. Version 1 adds the lag: records that are not done
with, or -1 if nobody knows. It takes a right to describe each group and topic.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.coordination.group.share.offsets import ready_topics
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.model.operations import Operation
from penstock.protocol.generated.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from penstock.server.end_offsets import end_offsets
from penstock.server.group_share_state import (
    NO_START,
    ShareKey,
    Summary,
    ask_group,
    summaries,
)
from penstock.server.handlers.share_group_heartbeat import is_enabled
from penstock.server.rights import may_group
from penstock.server.topic_rights import refused_topics, shows_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from penstock.protocol.generated.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.end_offsets import Place

    Topic = DescribeShareGroupOffsetsResponseTopic
    Partition = DescribeShareGroupOffsetsResponsePartition

GROUPS_AT_ONCE = 16
"""Each may ask share coordinators about hundreds of partitions at a time."""

_LAG_FROM = 1
NO_LAG = -1


async def handle(
    broker: Broker, call: Call, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """Each group by itself, in the order of the request."""
    groups: list[DescribeShareGroupOffsetsResponseGroup] = []
    for at in range(0, len(request.groups), GROUPS_AT_ONCE):
        some = request.groups[at : at + GROUPS_AT_ONCE]
        groups += await asyncio.gather(*(_describe(broker, call, it) for it in some))
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _describe(
    broker: Broker, call: Call, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = asked.group_id
    if not is_enabled(broker):
        return _refused_group(group_id, ErrorCode.UNSUPPORTED_VERSION)
    if not may_group(broker, call, Operation.DESCRIBE, group_id):
        return _refused_group(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if asked.topics is None:
        known = await ask_group(broker, group_id, lambda shard, *_: ready_topics(shard, group_id))
        if isinstance(known, ErrorCode):
            answer = _refused_group(group_id, known)
            answer.error_message = known.message
            return answer
        wanted = {it.name: sorted(it.partitions) for it in known.values()}
        wanted = {it: numbers for it, numbers in wanted.items() if shows_topic(broker, call, it)}
        refused: list[Topic] = []
    else:
        names = [topic.topic_name for topic in asked.topics]
        no_right = refused_topics(broker, call, Operation.DESCRIBE, names)
        wanted = {it.topic_name: it.partitions for it in asked.topics}
        refused = [_refused(it, wanted.pop(it)) for it in sorted(no_right)]
    topics = await _look(broker, group_id, wanted, with_lag=call.version >= _LAG_FROM)
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=topics + refused)


async def _look(
    broker: Broker, group_id: str, wanted: Mapping[str, Collection[int]], *, with_lag: bool
) -> list[Topic]:
    by_name = broker.image.topics.by_name
    ids = {name: by_name[name].id for name in wanted if name in by_name}
    keys = {
        (name, number): ShareKey(group_id, topic_id, number)
        for name, topic_id in ids.items()
        for number in wanted[name]
        if number in by_name[name].partitions
    }
    told = await summaries(broker, keys.values())
    found = {place: told[key] for place, key in keys.items()}
    ends = await end_offsets(broker, _lagging(found)) if with_lag else {}
    return [
        DescribeShareGroupOffsetsResponseTopic(
            topic_name=name,
            topic_id=ids.get(name, ZERO_UUID),
            partitions=[
                _partition(it, found.get((name, it)), ends.get((name, it))) for it in numbers
            ],
        )
        for name, numbers in wanted.items()
    ]


def _lagging(found: Mapping[Place, Summary | ErrorCode]) -> Iterable[Place]:
    """The partitions of which it is known what is done with."""
    return (
        place
        for place, told in found.items()
        if isinstance(told, Summary) and told.start != NO_START and told.complete >= 0
    )


def _partition(
    number: int, told: Summary | ErrorCode | None, end: int | ErrorCode | None
) -> Partition:
    if isinstance(end, ErrorCode):
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=number, error_code=end, error_message=end.message
        )
    if not isinstance(told, Summary):  # nothing is known, which is no error
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=number, start_offset=NO_START, lag=NO_LAG
        )
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=number,
        start_offset=told.start,
        leader_epoch=told.leader_epoch,
        lag=NO_LAG if end is None else end - told.start - told.complete,
    )


def _refused(name: str, numbers: Collection[int]) -> Topic:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=it,
                start_offset=NO_START,
                error_code=error,
                error_message=error.message,
            )
            for it in numbers
        ],
    )


def _refused_group(group_id: str, error: ErrorCode) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=error)

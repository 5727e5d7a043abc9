"""Where partitions end for consumers, be they led here or by other brokers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.net.peer import PeerLost
from penstock.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.server.leadership import find_led
from penstock.server.rounds import error_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.server.broker import Broker

Place = tuple[str, int]

ANSWER_SECONDS_MAX = 5.0
LATEST = -1
CONSUMER = -1


async def end_offsets(broker: Broker, places: Iterable[Place]) -> dict[Place, int | ErrorCode]:
    """The end of each partition, or why it cannot be told."""
    found: dict[Place, int | ErrorCode] = {}
    elsewhere: dict[int, list[Place]] = {}
    for place in dict.fromkeys(places):
        led = find_led(broker, *place)
        if not isinstance(led, ErrorCode):
            found[place] = led.log.high_watermark
            continue
        topic = broker.image.topics.by_name.get(place[0])
        partition = None if topic is None else topic.partitions.get(place[1])
        if partition is None or partition.leader in (-1, broker.node_id):
            found[place] = led
        else:
            elsewhere.setdefault(partition.leader, []).append(place)
    asked = (_ask(broker, leader, some) for leader, some in elsewhere.items())
    for answer in await asyncio.gather(*asked):
        found |= answer
    return found


async def _ask(broker: Broker, leader: int, places: list[Place]) -> dict[Place, int | ErrorCode]:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for name, index in places:
        asked = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
        topics.setdefault(name, []).append(asked)
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        topics=[ListOffsetsTopic(name=name, partitions=some) for name, some in topics.items()],
    )
    found: dict[Place, int | ErrorCode] = dict.fromkeys(places, ErrorCode.NETWORK_EXCEPTION)
    try:
        answer = await broker.neighbours.ask(leader, request, ANSWER_SECONDS_MAX)
    except PeerLost:
        return found
    for topic in answer.topics:
        for each in topic.partitions:
            error = error_of(each.error_code)
            found[topic.name, each.partition_index] = error or each.offset
    return found

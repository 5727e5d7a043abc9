"""AlterShareGroupOffsets, version 0: a share group without members begins somewhere else.

What it had locked, delivered or done with is forgotten. A group that does not exist is made. It
takes a right to read the group and each topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.refusal import Refusal
from penstock.coordination.group.share.initializing import on_initialized
from penstock.coordination.group.share.offsets import begin_altering
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.model.operations import Operation
from penstock.protocol.generated.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from penstock.server import audit
from penstock.server.group_share_state import (
    NO_START,
    ShareKey,
    ask_group,
    begin_state,
    by_outcome,
)
from penstock.server.handlers.share_group_heartbeat import is_enabled
from penstock.server.rights import may_group
from penstock.server.topic_rights import refused_topics

if TYPE_CHECKING:
    from penstock.protocol.generated.alter_share_group_offsets import AlterShareGroupOffsetsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

Place = tuple[str, int]


async def handle(
    broker: Broker, call: Call, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Partition by partition; an error about the group stands alone."""
    group_id = request.group_id
    if not is_enabled(broker):
        return _failed(ErrorCode.UNSUPPORTED_VERSION)
    if not may_group(broker, call, Operation.READ, group_id):
        return _failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return _failed(ErrorCode.INVALID_GROUP_ID)
    errors = _check(broker, call, request)
    starts = {
        (topic.topic_name, it.partition_index): it.start_offset
        for topic in request.topics
        for it in topic.partitions
        if not errors[topic.topic_name, it.partition_index]
    }
    told = await _alter(broker, group_id, starts)
    if isinstance(told, Refusal):
        return _failed(told.error, told.message)
    if starts:
        audit.changed(call, "alter share offsets", {"group": group_id, "topics": _names(starts)})
    return _answer(broker, errors | told)


def _check(
    broker: Broker, call: Call, request: AlterShareGroupOffsetsRequest
) -> dict[Place, ErrorCode]:
    """What is wrong with each partition by itself; NONE for most."""
    names = (topic.topic_name for topic in request.topics)
    no_right = refused_topics(broker, call, Operation.READ, names)
    errors = {}
    for topic in request.topics:
        image = broker.image.topics.by_name.get(topic.topic_name)
        for each in topic.partitions:
            error = ErrorCode.NONE
            if topic.topic_name in no_right:
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif image is None or each.partition_index not in image.partitions:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif each.start_offset < NO_START:
                error = ErrorCode.OFFSET_OUT_OF_RANGE
            errors[topic.topic_name, each.partition_index] = error
    return errors


async def _alter(
    broker: Broker, group_id: str, starts: Mapping[Place, int]
) -> dict[Place, ErrorCode] | Refusal:
    """Write it down, have it done, write down what was done."""
    wanted: dict[str, set[int]] = {}
    for name, number in starts:
        wanted.setdefault(name, set()).add(number)
    begun = await ask_group(
        broker, group_id, lambda shard, at, out: begin_altering(shard, at, out, group_id, wanted)
    )
    if isinstance(begun, ErrorCode):
        return Refusal(begun, begun.message)
    if isinstance(begun, Refusal):
        return begun
    offsets = {
        ShareKey(group_id, topic_id, number): starts[topic.name, number]
        for topic_id, topic in begun.topics.items()
        for number in topic.partitions
    }
    told = await begin_state(broker, begun.epoch, offsets)
    done, failed = by_outcome(begun.topics, told)
    ended = await ask_group(
        broker, group_id, lambda shard, _, out: on_initialized(shard, out, group_id, done, failed)
    )
    names = {topic_id: topic.name for topic_id, topic in begun.topics.items()}
    return {
        (names[key.topic_id], key.partition): error or ended or ErrorCode.NONE
        for key, error in told.items()
    }


def _answer(broker: Broker, errors: Mapping[Place, ErrorCode]) -> AlterShareGroupOffsetsResponse:
    by_name = broker.image.topics.by_name
    topics: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
    for (name, number), error in errors.items():
        topic = topics.get(name)
        if topic is None:
            # Who may not read a topic does not learn here whether there is one.
            is_shown = name in by_name and error is not ErrorCode.TOPIC_AUTHORIZATION_FAILED
            topic_id = by_name[name].id if is_shown else ZERO_UUID
            topic = AlterShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id)
            topics[name] = topic
        topic.partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=number,
                error_code=error,
                error_message=error.message if error else None,
            )
        )
    return AlterShareGroupOffsetsResponse(responses=list(topics.values()))


def _names(starts: Mapping[Place, int]) -> list[str]:
    return list(dict.fromkeys(name for name, _ in starts))


def _failed(error: ErrorCode, message: str | None = None) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=error, error_message=message or error.message)

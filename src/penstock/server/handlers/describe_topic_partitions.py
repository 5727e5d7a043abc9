"""DescribeTopicPartitions, version 0: topics page by page, eligible leader replicas included.

Topics come in the order of their names. An answer holds no more partitions than both the client
and `max.request.partition.size.limit` allow; where it stops, a cursor says what comes next. No
topics asked means all of them that the client may describe; who asks by name for another is refused
it, whether it exists or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.topic_names import invalid_name
from penstock.model.errors import ErrorCode
from penstock.model.operations import TOPIC_OPERATIONS, Operation
from penstock.model.resources import ResourceType
from penstock.protocol.generated.describe_topic_partitions import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from penstock.replica.partition import INTERNAL_TOPICS
from penstock.server.leadership import Reachable
from penstock.server.rights import rights_bits
from penstock.server.topic_rights import NO_TOPICS, refused_topics, shows_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.metadata.topics import PartitionImage, TopicImage
    from penstock.protocol.generated.describe_topic_partitions import (
        DescribeTopicPartitionsRequest,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """One page, from the current image."""
    first_topic, first_index = "", 0
    if request.cursor is not None:
        first_topic, first_index = request.cursor.topic_name, request.cursor.partition_index
    wanted = {topic.name for topic in request.topics}
    if first_index < 0 or (request.cursor is not None and wanted and first_topic not in wanted):
        return _invalid(request)
    names = sorted(name for name in wanted or broker.image.topics.by_name if name >= first_topic)
    hidden = NO_TOPICS
    if wanted:
        hidden = refused_topics(broker, call, Operation.DESCRIBE, names)
        shown = (name for name in names if name not in hidden)
    else:
        # One by one: what lies behind this page is looked at when its turn comes.
        shown = (name for name in names if shows_topic(broker, call, name))
    response = _answer(broker, call, request, shown, (first_topic, first_index))
    for topic in response.topics:
        topic.topic_authorized_operations = rights_bits(
            broker, call, ResourceType.TOPIC, topic.name or "", TOPIC_OPERATIONS
        )
    response.topics += [_hidden(name) for name in sorted(hidden)]
    return response


def _answer(
    broker: Broker,
    call: Call,
    request: DescribeTopicPartitionsRequest,
    names: Iterable[str],
    first: tuple[str, int],
) -> DescribeTopicPartitionsResponse:
    image = broker.image
    limit = broker.config.get_int("max.request.partition.size.limit")
    room = max(min(limit, request.response_partition_limit), 1)
    reachable = Reachable(image, call.listener_name)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if not room:
            response.next_cursor = _cursor(name, 0)
            break
        topic = image.topics.by_name.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        start = first[1] if name == first[0] else 0
        page = _page(reachable, topic, start, room)
        response.topics.append(page)
        room -= len(page.partitions)
        if start + len(page.partitions) < len(topic.partitions):
            response.next_cursor = _cursor(name, start + len(page.partitions))
            break
    return response


def _page(
    reachable: Reachable, topic: TopicImage, start: int, room: int
) -> DescribeTopicPartitionsResponseTopic:
    end = min(len(topic.partitions), start + room)
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(reachable, index, topic.partitions[index]) for index in range(start, end)
        ],
    )


def _partition(
    reachable: Reachable, index: int, state: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=reachable.leader(state),
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.elr),
        last_known_elr=list(state.last_known_elr),
        offline_replicas=reachable.offline_replicas(state),
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if invalid_name(name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
    )


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DescribeTopicPartitionsResponseTopic(error_code=error, name=name)


def _invalid(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """A cursor that no answer of ours can have held."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name
            )
            for topic in request.topics
        ]
    )


def _cursor(name: str, index: int) -> DescribeTopicPartitionsResponseCursor:
    return DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=index)

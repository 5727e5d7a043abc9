"""DescribeProducers, version 0: the producers that a leader remembers, for finding stuck ones.

It takes a right to read the topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from penstock.server.leadership import find_led
from penstock.server.topic_rights import refused_topics

if TYPE_CHECKING:
    from penstock.protocol.generated.describe_producers import DescribeProducersRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Answer partition by partition."""
    names = (topic.name for topic in request.topics)
    unauthorized = refused_topics(broker, call, Operation.READ, names)
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:  # each partition once: it may have very many producers
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=name,
                partitions=[
                    _unauthorized(at) if name in unauthorized else _partition(broker, name, at)
                    for at in indexes
                ],
            )
            for name, indexes in wanted.items()
        ]
    )


def _unauthorized(index: int) -> PartitionResponse:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return PartitionResponse(partition_index=index, error_code=error, error_message=error.message)


def _partition(broker: Broker, topic: str, index: int) -> PartitionResponse:
    partition = find_led(broker, topic, index)
    if isinstance(partition, ErrorCode):
        unknown = topic not in broker.image.topics.by_name
        return PartitionResponse(
            partition_index=index,
            error_code=partition,
            error_message=partition.message if unknown else None,
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.txn_first_offset,
            )
            for producer_id, producer in partition.log.producers.by_id.items()
        ],
    )

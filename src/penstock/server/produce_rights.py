"""Whether who produces may write to the topics, and as part of the transaction that they name.

Only where an authorizer is: open nodes do not come here, and plain requests of those who wrote to
the topic before do not either (`Gate.may_write`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.operations import Operation
from penstock.records.batch import ATTRIBUTES_OFFSET, HEAD_SIZE, TRANSACTIONAL
from penstock.server.rights import may_topic, may_transact

if TYPE_CHECKING:
    from penstock.protocol.generated.produce import ProduceRequest, TopicProduceData
    from penstock.server.broker import Broker
    from penstock.server.call import Call

BY_ID_FROM = 13


def may_transact_all(broker: Broker, call: Call, request: ProduceRequest) -> bool:
    """Whether the request holds no batch of a transaction in which its sender may not write."""
    name = request.transactional_id
    # Without an id, a batch of a transaction is refused where it would be appended.
    return (
        name is None
        or not _has_transactional(request)
        or may_transact(broker, call, Operation.WRITE, name)
    )


def may_write_topic(broker: Broker, call: Call, topic: TopicProduceData) -> bool:
    """Whether a topic of the request may be written, if it exists."""
    by_id = call.version >= BY_ID_FROM
    topics = broker.image.topics
    found = topics.by_id.get(topic.topic_id) if by_id else topics.by_name.get(topic.name)
    if found is not None:
        gate = call.connection.gate
        if gate is not None and gate.may_write(found.name):
            return True
    name = topic.name if found is None else found.name
    if found is None and by_id:
        # What is hosted may be gone from the metadata, and is not open to all because of it.
        keys = ((topic.topic_id, item.index) for item in topic.partition_data)
        hosted = next(
            (broker.hosted_by_id[key] for key in keys if key in broker.hosted_by_id), None
        )
        if hosted is None:
            return True  # to be told that there is no such id gives nothing away
        name = hosted.topic
    return may_topic(broker, call, Operation.WRITE, name)


def _has_transactional(request: ProduceRequest) -> bool:
    return any(
        _is_transactional(item.records)
        for topic in request.topic_data
        for item in topic.partition_data
    )


def _is_transactional(records: memoryview | None) -> bool:
    # One batch is all that a partition may bring: others are refused later.
    if records is None or len(records) < HEAD_SIZE:
        return False
    return bool(records[ATTRIBUTES_OFFSET + 1] & TRANSACTIONAL)

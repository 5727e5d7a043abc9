"""What members of share groups say about records: checked, and handed to the machines.

Both ShareAcknowledge and ShareFetch carry it. Nothing here walks offsets: a range may claim to have
2^62 of them, and only the machine knows which it has handed out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.delivery.effects import AckBatch, Acknowledge
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.server.rights import may_topic
from penstock.server.share_answers import Acknowledgements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.protocol.generated import share_acknowledge, share_fetch
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.share_sessions import Key, Member

    Batch = share_acknowledge.AcknowledgementBatch | share_fetch.AcknowledgementBatch
    Topic = share_acknowledge.AcknowledgeTopic | share_fetch.FetchTopic

RENEW_FROM = 2


def acknowledge_all(
    broker: Broker,
    call: Call,
    member: Member,
    topics: Sequence[Topic],
    renews: bool,
    *,
    empty_too: bool,
) -> Acknowledgements:
    """Hand on what a request says; the answers of some partitions may come later.

    With `empty_too` there is an answer for partitions about which nothing is said.
    """
    answers = Acknowledgements()
    word_last = Acknowledge.RENEW if call.version >= RENEW_FROM and renews else Acknowledge.REJECT
    for topic in topics:
        for part in topic.partitions:
            batches = part.acknowledgement_batches
            if not batches and not empty_too:
                continue
            key = (topic.topic_id, part.partition_index)
            error = _acknowledge(broker, call, member, key, batches, word_last, answers)
            if error is not None:
                answers.expect()
                answers.settle(key, error)
    return answers


def _acknowledge(
    broker: Broker,
    call: Call,
    member: Member,
    key: Key,
    batches: Sequence[Batch],
    word_last: int,
    answers: Acknowledgements,
) -> ErrorCode | None:
    """The answer, or None if the machine gives it."""
    topic = broker.image.topics.by_id.get(key[0])
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    said = checked(batches, word_last)
    if said is None:
        return ErrorCode.INVALID_REQUEST
    if not may_topic(broker, call, Operation.READ, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if key[1] not in topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not said:
        return ErrorCode.NONE
    driver = broker.shares.partitions.find(member.group_id, key)
    if driver is None:
        return _why_nothing_is_held(broker, key)
    driver.acknowledge(member.member_id, said, answers)
    return None


def _why_nothing_is_held(broker: Broker, key: Key) -> ErrorCode:
    partition = broker.hosted_by_id.get(key)
    if partition is None:
        return broker.why_not_hosted(*key)
    return (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leading
        else ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


def checked(batches: Sequence[Batch], word_last: int) -> list[AckBatch] | None:
    """What is said about a partition, in ascending order; None if it makes no sense."""
    said: list[AckBatch] = []
    before = -1
    for batch in batches:
        first, last, words = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < before or not words:
            return None
        if len(words) > 1 and last - first != len(words) - 1:
            return None
        if min(words) < Acknowledge.GAP or max(words) > word_last:
            return None
        said.append(AckBatch(first, last, tuple(words)))
        before = last
    return said

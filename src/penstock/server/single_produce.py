"""The shortest way: one batch, for one partition, as most requests of most producers are.

What it takes and what it leaves alone is said in `plain_produce`, which serves the same requests
and those with more batches. Here everything is in one function, because to call others would cost
as much as what they do: this is the path whose price everybody pays.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any

from penstock.records.batch import HEAD_SIZE
from penstock.replica.outcomes import Appended
from penstock.replica.transactions import NOT_TRANSACTIONAL
from penstock.server.plain_produce import (
    ANSWER_HEAD,
    EMPTY,
    FLAGS_AT,
    HEAD,
    NOT_PLAIN,
    ONE,
    ONE_BYTE,
    VERSIONS,
    may_produce,
)

if TYPE_CHECKING:
    from penstock.net.connection import Connection
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.plain_produce import Answer, AnswerLater

_FIRST, _BY_ID = VERSIONS[0], VERSIONS[-1]  # the last of them names topics by their ids

_PROLOGUE = Struct(">BBhiB")  # tags, transactional id, acks, timeout, count of topics
_PARTITION = Struct(">BiBBB")  # count, index, and the compact length of its batch
_NO_TAGS = bytes(3)  # of the partition, of the topic, and of the request
_ANSWER = Struct(">BihqqqBxx6x")  # from the count of partitions to the end, as in `plain_produce`
_ANSWER_REST = ANSWER_HEAD.size - 4 + _ANSWER.size  # all but the topic


def serve_single(
    broker: Broker, connection: Connection, frame: memoryview, answer: AnswerLater
) -> Answer | None:
    """The reply, as from `plain_produce.serve_plain`; None leaves it to that."""
    try:
        _, version, correlation_id, size = HEAD.unpack_from(frame)
        at = 10 + size if size > 0 else 10
        tags, transaction, acks, timeout_ms, topics = _PROLOGUE.unpack_from(frame, at)
        at += 9
        hosted: Any
        topic: bytes | str
        partition: Partition | None
        if version == _BY_ID:
            topic_end = at + 16
            hosted, topic = broker.hosted_by_id, frame[at:topic_end].tobytes()
        elif _FIRST <= version < _BY_ID and 1 < frame[at] < ONE_BYTE:
            topic_end = at + frame[at]
            hosted, topic = broker.hosted, str(frame[at + 1 : topic_end], "utf-8")
        else:
            return None
        partitions, index, size, second, third = _PARTITION.unpack_from(frame, topic_end)
        if size < ONE_BYTE:
            begin = topic_end + 6
        elif second < ONE_BYTE:
            size, begin = size & 0x7F | second << 7, topic_end + 7
        elif third < ONE_BYTE:
            size, begin = size & 0x7F | (second & 0x7F) << 7 | third << 14, topic_end + 8
        else:
            return None
        end = begin - 1 + size
        partition = hosted.get((topic, index))
        if (
            partitions != ONE
            or topics != ONE
            or tags
            or transaction
            or (acks != -1 and acks != 1)
            or size <= HEAD_SIZE
            or frame[end:] != _NO_TAGS
            or frame[begin + FLAGS_AT] & NOT_PLAIN
            or partition is None
            or not partition.leading
            or partition.internal
            or partition.offline
            or partition.under_min
        ):
            return None
    except (StructError, IndexError, UnicodeDecodeError):
        return None
    if connection.gate is not None and not may_produce(connection, partition.topic):
        return None
    result = partition.append(frame[begin:end], broker.clock.now(), NOT_TRANSACTIONAL)
    if type(result) is Appended:
        base, end_offset, append_time, log_start = result
        if partition.log.high_watermark >= end_offset or (
            acks == 1 and partition.synced >= end_offset
        ):
            size = topic_end - at
            out = bytearray(ANSWER_HEAD.pack(_ANSWER_REST + size, correlation_id, ONE))
            out += frame[at:topic_end]
            out += _ANSWER.pack(ONE, index, 0, base, append_time, log_start, EMPTY)
            return out
    return answer(connection, frame, acks, timeout_ms, [(partition, index, result)], None)

"""The short way for the requests that a broker sees most: batches for partitions of one topic.

Clients pipeline such requests by the thousand, and making objects of each one and of its answer
costs as much as storing the batches. This reads the few numbers where they stand and writes the
answer as it goes. It takes only what is exactly of that shape and raises no question; anything
else (other versions, several topics, a transaction, tagged fields, a partition that this node does
not lead or whose replicas are too few) is left untouched to `handlers.produce`, which knows all
the answers.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Union

from penstock.records.batch import ATTRIBUTES_OFFSET, CONTROL, HEAD_SIZE, TRANSACTIONAL
from penstock.replica.partition import Appended
from penstock.replica.transactions import NOT_TRANSACTIONAL
from penstock.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.net.connection import Connection, Reply
    from penstock.net.late_reply import LateReply
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.quota_account import Account

VERSIONS = range(9, 14)
"""The flexible ones, which have the same outline."""
_FIRST, _LAST = VERSIONS[0], VERSIONS[-1]
BY_ID_FROM = 13

_HEAD = Struct(">hhih")  # api key, version, correlation id, length of the client id
_PROLOGUE = Struct(">BBhiBB")  # tags, transactional id, acks, timeout, count of topics, and a byte
_TOPIC_AT = 9  # in the prologue: the last byte is the length of a name, or the first of an id
_INDEX = Struct(">i")
_EPILOGUE = 2  # bytes: neither the topic nor the request has tags
_FLAGS_AT = ATTRIBUTES_OFFSET + 1  # the low byte of a batch's attributes, which has all of them

_ANSWER_HEAD = Struct(">iixB")  # length, correlation id, no tags, count of topics
_ANSWER = Struct(">ihqqqBxx")  # up to the count of record errors; no message, no tags
_ANSWER_END = bytes(6)  # no tags of the topic, no throttling, no tags of the response
_ANSWER_REST = _ANSWER_HEAD.size - 4 + 1 + len(_ANSWER_END)  # without topic and partitions

_ONE = 2  # one element, in compact form
_EMPTY = 1  # no element, in compact form
_ONE_BYTE = 0x80  # numbers below take one byte
_NOT_PLAIN = TRANSACTIONAL | CONTROL

Batch = tuple["Partition", int, int, int]
"""Where it goes, the partition's index, and where in the frame it begins and ends."""
Result = tuple["Partition", int, Any]
"""The partition, its index, and what became of its batch."""
Answer = Union["Reply", "LateReply[Reply]"]


def serve_plain(
    broker: Broker,
    connection: Connection,
    frame: memoryview,
    answer: Callable[[Connection, memoryview, int, int, list[Result], Account | None], Answer],
    account: Account | None = None,
) -> Answer | None:
    """The reply to a produce request of the plain shape; None leaves it to the long way.

    Once something was stored there is no way back: `answer(connection, frame, acks, timeout,
    results, account)` replies to what was refused, or has to wait until it is committed.
    """
    try:
        _, version, correlation_id, size = _HEAD.unpack_from(frame)
        at = 10 + size if size > 0 else 10
        tags, transaction, acks, timeout_ms, topics, size = _PROLOGUE.unpack_from(frame, at)
        if tags or transaction or acks not in (-1, 1) or topics != _ONE:
            return None
        if not _FIRST <= version <= _LAST:
            return None
        topic_at = at + _TOPIC_AT
        hosted: dict[Any, Partition]
        topic: bytes | str
        if version >= BY_ID_FROM:
            topic_end = topic_at + 16
            hosted, topic = broker.hosted_by_id, frame[topic_at:topic_end].tobytes()
        else:
            if not 1 < size < _ONE_BYTE:
                return None
            topic_end = topic_at + size
            hosted, topic = broker.hosted, str(frame[topic_at + 1 : topic_end], "utf-8")
        batches = _batches(frame, topic_end, hosted, topic)
    except (StructError, IndexError, UnicodeDecodeError):
        return None  # the long way says what is wrong
    if not batches:
        return None
    gate = connection.gate
    if gate is not None:
        # Compared here and not asked: it is all that proof and rights cost a batch.
        name = batches[0][0].topic
        if connection.last_active >= gate.expires_at or (
            name not in gate.writable and not gate.may_write(name)
        ):
            return None
    now = broker.clock.now()
    count = len(batches)
    size = _ANSWER_REST + topic_end - topic_at + count * _ANSWER.size
    out = bytearray(_ANSWER_HEAD.pack(size, correlation_id, _ONE))
    out += frame[topic_at:topic_end]
    out.append(count + 1)
    results = []
    plain = True
    for partition, index, begin, end in batches:
        result = partition.append(frame[begin:end], now, NOT_TRANSACTIONAL)
        results.append(result)
        if type(result) is Appended:
            base, end_offset, append_time, log_start = result
            if partition.log.high_watermark >= end_offset or (
                acks == 1 and partition.synced >= end_offset
            ):
                out += _ANSWER.pack(index, 0, base, append_time, log_start, _EMPTY)
                continue
        plain = False
    if not plain:
        places = zip(batches, results, strict=True)
        outcome = [(batch[0], batch[1], result) for batch, result in places]
        return answer(connection, frame, acks, timeout_ms, outcome, account)
    out += _ANSWER_END
    if account is not None:
        account.settle_plain(ANONYMOUS if gate is None else gate.principal, frame, out)
    return out


def _batches(
    frame: memoryview, at: int, hosted: dict[Any, Partition], topic: bytes | str
) -> list[Batch] | None:
    """The batches of a topic whose partitions are listed from `at` to the end of the frame."""
    batches: list[Batch] = []
    count = frame[at]
    if count >= _ONE_BYTE:
        return None
    at += 1
    for _ in range(count - 1):
        (index,) = _INDEX.unpack_from(frame, at)
        at += 4
        size = shift = 0
        while (byte := frame[at]) >= _ONE_BYTE:
            size |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift > 28:
                return None
        begin = at + 1
        end = at + (size | byte << shift)
        partition = hosted.get((topic, index))
        if (
            end - begin < HEAD_SIZE
            or frame[end]  # tags
            or frame[begin + _FLAGS_AT] & _NOT_PLAIN
            or partition is None
            or not partition.leading
            or partition.internal
            or partition.offline
            or partition.under_min
        ):
            return None
        batches.append((partition, index, begin, end))
        at = end + 1
    ends_well = len(frame) - at == _EPILOGUE and not frame[at] and not frame[at + 1]
    return batches if ends_well else None

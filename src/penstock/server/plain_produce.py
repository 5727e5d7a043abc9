"""The short way for the requests that a broker sees most: batches for partitions of one topic.

Clients pipeline such requests by the thousand, and making objects of each one and of its answer
costs as much as storing the batches. This reads the few numbers where they stand and writes the
answer as it goes. It takes only what is exactly of that shape and raises no question; anything
else (other versions, several topics, a transaction, tagged fields, a partition that this node does
not lead or whose replicas are too few) is left untouched to `handlers.produce`, which knows all
the answers.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Union

from penstock.records.batch import (
    ATTRIBUTES_OFFSET,
    CONTROL,
    HEAD_SIZE,
    MAX_TIMESTAMP_OFFSET,
    TRANSACTIONAL,
)
from penstock.replica.append_run import append_run, may_run
from penstock.replica.partition import Appended
from penstock.replica.transactions import NOT_TRANSACTIONAL
from penstock.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from penstock.net.connection import Connection, Reply
    from penstock.net.late_reply import LateReply
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.quota_account import Account

RUN_BATCHES_MAX = 256
"""What is stored together before others get their turn: a millisecond or two."""

VERSIONS = range(9, 14)
"""The flexible ones, which have the same outline."""
_FIRST, _LAST = VERSIONS[0], VERSIONS[-1]
BY_ID_FROM = 13

HEAD = Struct(">hhih")  # api key, version, correlation id, length of the client id
_PROLOGUE = Struct(">BBhiBB")  # tags, transactional id, acks, timeout, count of topics, and a byte
_TOPIC_AT = 9  # in the prologue: the last byte is the length of a name, or the first of an id
_PARTITION = Struct(">iBBB")  # its index, and the compact length of its batch, of up to three bytes
_TIMESTAMP = Struct(">q")
_EPILOGUE = 2  # bytes: neither the topic nor the request has tags
FLAGS_AT = ATTRIBUTES_OFFSET + 1  # the low byte of a batch's attributes, which has all of them

ANSWER_HEAD = Struct(">iixB")  # length, correlation id, no tags, count of topics
_ANSWER = Struct(">ihqqqBxx")  # up to the count of record errors; no message, no tags
_ANSWER_END = bytes(6)  # no tags of the topic, no throttling, no tags of the response
_ANSWER_REST = ANSWER_HEAD.size - 4 + 1 + len(_ANSWER_END)  # without topic and partitions

ONE = 2  # one element, in compact form
EMPTY = 1  # no element, in compact form
ONE_BYTE = 0x80  # numbers below take one byte
NOT_PLAIN = TRANSACTIONAL | CONTROL

Batch = tuple["Partition", int, int, int]
"""Where it goes, the partition's index, and where in the frame it begins and ends."""
Result = tuple["Partition", int, Any]
"""The partition, its index, and what became of its batch."""
Answer = Union["Reply", "LateReply[Reply]"]
Plain = tuple[int, int, int, int, int, list[Batch]]
"""A request of the plain shape, read and allowed: its correlation id, acks and timeout, where its
topic begins and ends, and its batches. A tuple of the plain kind, which costs the least."""
AnswerLater = Callable[["Connection", memoryview, int, int, list[Result], "Account | None"], Answer]


def serve_plain(
    broker: Broker,
    connection: Connection,
    frame: memoryview,
    answer: AnswerLater,
    account: Account | None = None,
) -> Answer | None:
    """The reply to a produce request of the plain shape; None leaves it to the long way.

    Once something was stored there is no way back: `answer(connection, frame, acks, timeout,
    results, account)` replies to what was refused, or has to wait until it is committed.
    """
    plain = _read(broker, connection, frame)
    if plain is None:
        return None
    now = broker.clock.now()
    results = []
    for partition, _, begin, end in plain[-1]:
        results.append(partition.append(frame[begin:end], now, NOT_TRANSACTIONAL))
    return _reply(connection, frame, plain, results, answer, account)


def serve_plain_run(
    broker: Broker, connection: Connection, frames: list[memoryview], answer: AnswerLater
) -> list[Answer]:
    """The replies to requests that came together, up to the first that is not of the plain shape,
    or whose batches have to be looked into.

    What they carry for one partition is stored together. None for a single request: it has nobody
    to be served together with.
    """
    requests: list[Plain] = []
    count = 0
    now = broker.clock.now()
    for frame in frames:
        plain = _read(broker, connection, frame)
        if plain is None or not all(_may_run(frame, batch, now) for batch in plain[-1]):
            break
        count += len(plain[-1])
        if count > RUN_BATCHES_MAX:
            break
        requests.append(plain)
    if len(requests) < 2:
        return []
    together: dict[Partition, list[memoryview]] = {}
    for frame, plain in zip(frames, requests, strict=False):
        for partition, _, begin, end in plain[-1]:
            together.setdefault(partition, []).append(frame[begin:end])
    became = {
        partition: iter(append_run(partition, batches, now))
        for partition, batches in together.items()
    }
    return [
        _reply(connection, frame, plain, [next(became[each[0]]) for each in plain[-1]], answer)
        for frame, plain in zip(frames, requests, strict=False)
    ]


def _may_run(frame: memoryview, batch: Batch, now: int) -> bool:
    """Whether nobody has to look into a batch."""
    partition, _, begin, _ = batch
    (youngest,) = _TIMESTAMP.unpack_from(frame, begin + MAX_TIMESTAMP_OFFSET)
    return may_run(partition) and youngest - now <= partition.log.config.timestamp_after_max_ms


def _read(broker: Broker, connection: Connection, frame: memoryview) -> Plain | None:
    try:
        _, version, correlation_id, size = HEAD.unpack_from(frame)
        at = 10 + size if size > 0 else 10
        tags, transaction, acks, timeout_ms, topics, size = _PROLOGUE.unpack_from(frame, at)
        if tags or transaction or acks not in (-1, 1) or topics != ONE:
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
            if not 1 < size < ONE_BYTE:
                return None
            topic_end = topic_at + size
            hosted, topic = broker.hosted, str(frame[topic_at + 1 : topic_end], "utf-8")
        batches = _batches(frame, topic_end, hosted, topic)
    except (StructError, IndexError, UnicodeDecodeError):
        return None  # the long way says what is wrong
    if not batches:
        return None
    if connection.gate is not None and not may_produce(connection, batches[0][0].topic):
        return None
    return correlation_id, acks, timeout_ms, topic_at, topic_end, batches


def may_produce(connection: Connection, topic: str) -> bool:
    """Whether who stands at the connection's gate may still write to a topic."""
    gate = connection.gate
    # Compared here and not asked: it is all that proof and rights cost a batch.
    return bool(
        connection.last_active < gate.expires_at
        and (topic in gate.writable or gate.may_write(topic))
    )


def _reply(
    connection: Connection,
    frame: memoryview,
    plain: Plain,
    results: list[Any],
    answer: AnswerLater,
    account: Account | None = None,
) -> Answer:
    correlation_id, acks, timeout_ms, topic_at, topic_end, batches = plain
    count = len(batches)
    size = _ANSWER_REST + topic_end - topic_at + count * _ANSWER.size
    out = bytearray(ANSWER_HEAD.pack(size, correlation_id, ONE))
    out += frame[topic_at:topic_end]
    out.append(count + 1)
    for (partition, index, _, _), result in zip(batches, results):  # noqa: B905 - as many
        if type(result) is Appended:
            base, end_offset, append_time, log_start = result
            if partition.log.high_watermark >= end_offset or (
                acks == 1 and partition.synced >= end_offset
            ):
                out += _ANSWER.pack(index, 0, base, append_time, log_start, EMPTY)
                continue
        places = zip(batches, results, strict=True)
        outcome = [(batch[0], batch[1], result) for batch, result in places]
        return answer(connection, frame, acks, timeout_ms, outcome, account)
    out += _ANSWER_END
    if account is not None:
        gate = connection.gate
        account.settle_plain(ANONYMOUS if gate is None else gate.principal, frame, out)
    return out


def _batches(
    frame: memoryview, at: int, hosted: dict[Any, Partition], topic: bytes | str
) -> list[Batch] | None:
    """The batches of a topic whose partitions are listed from `at` to the end of the frame."""
    batches: list[Batch] = []
    count = frame[at]
    if count >= ONE_BYTE:
        return None
    at += 1
    for _ in range(count - 1):
        index, size, second, third = _PARTITION.unpack_from(frame, at)
        if size < ONE_BYTE:
            begin = at + 5
        elif second < ONE_BYTE:
            size, begin = size & 0x7F | second << 7, at + 6
        elif third < ONE_BYTE:
            size, begin = size & 0x7F | (second & 0x7F) << 7 | third << 14, at + 7
        else:
            return None  # two megabytes: what that costs is not the reading of its length
        end = begin - 1 + size
        partition = hosted.get((topic, index))
        if (
            end - begin < HEAD_SIZE
            or frame[end]  # tags
            or frame[begin + FLAGS_AT] & NOT_PLAIN
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

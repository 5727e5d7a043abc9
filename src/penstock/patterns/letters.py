"""What is written about a message that is not handled now: its dead letter, or its retry copy.

Dead letters have the headers of Kafka's dead-letter queues for share groups (KIP-1191), so that
`penstock dlq` and other tools read both alike. Beside them stand the message's own headers, and the
time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from penstock.patterns.message import Headers, Message

DEAD = "__dlq.errors."
DEAD_TOPIC = DEAD + "topic"
DEAD_PARTITION = DEAD + "partition"
DEAD_OFFSET = DEAD + "offset"
DEAD_GROUP = DEAD + "group"
DEAD_COUNT = DEAD + "delivery.count"
DEAD_REASON = DEAD + "message"
DEAD_TIME = DEAD + "timestamp"

RETRY = "penstock-retry-"
RETRY_TOPIC = RETRY + "topic"
RETRY_PARTITION = RETRY + "partition"
RETRY_OFFSET = RETRY + "offset"
RETRY_TIMESTAMP = RETRY + "timestamp"
RETRY_ATTEMPT = RETRY + "attempt"
RETRY_DUE = RETRY + "due"

DELAY_HEADER = "penstock-delay-ms"
DELIVER_AT_HEADER = "penstock-deliver-at"

REASON_BYTES_MAX = 1_000
_DELIVERY = (DELAY_HEADER, DELIVER_AT_HEADER)


class Letter(NamedTuple):
    """A record to be produced."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers

    def bare(self) -> Letter:
        """Without what may make it too large: what went wrong and where stays."""
        ours = tuple(each for each in self.headers if each[0].startswith(DEAD))
        return self._replace(key=None, value=None, headers=ours)


def dead_letter(topic: str, message: Message, group: str, reason: str, now_ms: int) -> Letter:
    """The message as it was, and why and where it was given up."""
    told = (
        (DEAD_TOPIC, message.topic.encode()),
        (DEAD_PARTITION, _text(message.partition)),
        (DEAD_OFFSET, _text(message.offset)),
        (DEAD_GROUP, group.encode()),
        (DEAD_COUNT, _text(message.attempt)),
        (DEAD_REASON, reason.encode()[:REASON_BYTES_MAX]),
        (DEAD_TIME, _text(now_ms)),
    )
    return Letter(topic, message.key, message.value, (*_own(message), *told))


def retry_copy(topic: str, message: Message, due_ms: int, delay_ms: int | None) -> Letter:
    """The message for its next try, which `message.attempt` already counts.

    With a `delay_ms` the server keeps it until then; else whoever reads it waits until `due_ms`.
    """
    told = (
        (RETRY_TOPIC, message.topic.encode()),
        (RETRY_PARTITION, _text(message.partition)),
        (RETRY_OFFSET, _text(message.offset)),
        (RETRY_TIMESTAMP, _text(message.timestamp_ms)),
        (RETRY_ATTEMPT, _text(message.attempt)),
        (RETRY_DUE, _text(due_ms)),
    )
    delay = () if delay_ms is None else ((DELAY_HEADER, _text(delay_ms)),)
    return Letter(topic, message.key, message.value, (*_own(message), *told, *delay))


def from_retry(copy: Message) -> tuple[Message, int | None]:
    """The message that a record of a retry topic stands for, and when its next try is due.

    A record that somebody else wrote there is a message like any other.
    """
    topic = copy.header(RETRY_TOPIC)
    names = (RETRY_PARTITION, RETRY_OFFSET, RETRY_TIMESTAMP, RETRY_ATTEMPT)
    partition, offset, timestamp, attempt = (copy.number(name) for name in names)
    if topic is None or partition is None or offset is None or timestamp is None or not attempt:
        return copy, None
    message = replace(
        copy,
        topic=topic.decode(errors="replace"),
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp,
        attempt=attempt,
        headers=_own(copy),
    )
    return message, copy.number(RETRY_DUE)


def _own(message: Message) -> Headers:
    """The message's own headers. What an earlier try or burial wrote is no longer true."""
    return tuple(
        each
        for each in message.headers
        if not each[0].startswith((DEAD, RETRY)) and each[0] not in _DELIVERY
    )


def _text(number: int) -> bytes:
    return b"%d" % number

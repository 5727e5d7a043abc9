"""What is written about a message that is not handled now: its dead letter, or its retry copy.

Dead letters have the headers that brokers write for share groups, so that `penstock dlq` and other
tools read both alike. Beside them stand the message's own headers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from penstock.model import dead_letters
from penstock.model.delays import DELAY_MS, DELIVER_AT
from penstock.patterns.message import Headers, Message

RETRY = "penstock-retry-"
RETRY_TOPIC = RETRY + "topic"
RETRY_PARTITION = RETRY + "partition"
RETRY_OFFSET = RETRY + "offset"
RETRY_TIMESTAMP = RETRY + "timestamp"
RETRY_ATTEMPT = RETRY + "attempt"
RETRY_DUE = RETRY + "due"

TOLD_BYTES_MAX = 1_000
_DELIVERY = (DELAY_MS, DELIVER_AT)


class Letter(NamedTuple):
    """A record to be produced."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers

    def bare(self) -> Letter:
        """Without what makes it too large: where the message is and what went wrong stays."""
        told = (each for each in self.headers if dead_letters.is_error_header(each[0]))
        return self._replace(key=None, value=None, headers=(*told, (dead_letters.COPIED, b"false")))


def dead_letter(
    topic: str, message: Message, group: str, reason: str, told: str, now_ms: int
) -> Letter:
    """The message as it was, where it was, and why it was given up: in a word, and in `told`."""
    about = (
        (dead_letters.TOPIC, message.topic.encode()),
        (dead_letters.PARTITION, _text(message.partition)),
        (dead_letters.OFFSET, _text(message.offset)),
        (dead_letters.GROUP, group.encode()),
        (dead_letters.DELIVERY_COUNT, _text(message.attempt)),
        (dead_letters.MESSAGE, _cut(told)),
        (dead_letters.REASON, reason.encode()),
        (dead_letters.TIME, _text(now_ms)),
    )
    return Letter(topic, message.key, message.value, (*_own(message), *about))


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
    delay = () if delay_ms is None else ((DELAY_MS, _text(delay_ms)),)
    return Letter(topic, message.key, message.value, (*_own(message), *told, *delay))


def from_retry(copy: Message) -> tuple[Message, int | None]:
    """The message that a record of a retry topic stands for, and when its next try is due.

    A record that somebody else wrote there is a message like any other.
    """
    topic = copy.header(RETRY_TOPIC)
    names = (RETRY_PARTITION, RETRY_OFFSET, RETRY_TIMESTAMP, RETRY_ATTEMPT)
    partition, offset, timestamp, attempt = (copy.number(name) for name in names)
    if topic is None or partition is None or offset is None or not attempt:
        return copy, None
    message = replace(
        copy,
        topic=topic.decode(errors="replace"),
        partition=partition,
        offset=offset,
        timestamp_ms=-1 if timestamp is None else timestamp,
        attempt=attempt,
        headers=_own(copy),
    )
    return message, copy.number(RETRY_DUE)


def _own(message: Message) -> Headers:
    """The message's own headers. What an earlier try or burial wrote is no longer true."""
    return tuple(each for each in message.headers if not _is_ours(each[0]))


def _is_ours(name: str) -> bool:
    return name.startswith(RETRY) or name in _DELIVERY or dead_letters.is_error_header(name)


def _text(number: int) -> bytes:
    return b"%d" % number


def _cut(text: str) -> bytes:
    """At most so many bytes, and whole letters."""
    return text.encode(errors="replace")[:TOLD_BYTES_MAX].decode(errors="ignore").encode()

"""From the client's records to messages."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE
from confluent_kafka import Message as Record

from penstock.patterns.letters import from_retry
from penstock.patterns.message import Headers, Message
from penstock.patterns.tenure import Place
from penstock.patterns.topics import Plan


class Taken(NamedTuple):
    """A message, and where it was read: perhaps in a retry topic."""

    place: Place
    offset: int
    message: Message
    due_ms: int | None
    """When its next try is due, for one that waited in a retry topic."""


def taken(record: Record, plan: Plan) -> Taken:
    """What the client read, as a handler will see it."""
    topic, partition, offset = record.topic(), record.partition(), record.offset()
    assert topic is not None and partition is not None and offset is not None, "not a record"
    kind, timestamp = record.timestamp()
    message = Message(
        topic,
        partition,
        offset,
        _bytes(record.key()),
        _bytes(record.value()),
        _headers(record),
        -1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
    )
    due_ms = None
    if plan.is_retry(topic):
        message, due_ms = from_retry(message)
    return Taken((topic, partition), offset, message, due_ms)


def _headers(record: Record) -> Headers:
    found = record.headers()
    if not found:
        return ()
    pairs = found.items() if isinstance(found, dict) else found
    return tuple((name, _bytes(value)) for name, value in pairs)


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value

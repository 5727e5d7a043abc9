"""Distinct numbers get distinct types, so that a checker can tell an offset from an epoch."""

from __future__ import annotations

import base64
from typing import NamedTuple, NewType

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
NodeId = NewType("NodeId", int)
ProducerId = NewType("ProducerId", int)
Millis = NewType("Millis", int)
"""A point in time or a span, in milliseconds; wall time is since 1970, as on Kafka's wire."""

Uuid = NewType("Uuid", bytes)
"""Sixteen bytes, as on the wire. `uuid_text` gives the form that Kafka's tools print."""

ZERO_UUID = Uuid(bytes(16))
METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")

NO_NODE = NodeId(-1)
NO_EPOCH = LeaderEpoch(-1)
NO_TIMESTAMP = Millis(-1)


class TopicPartition(NamedTuple):
    """A partition by its topic's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(uuid: bytes) -> str:
    """Kafka's text form: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_of(text: str) -> Uuid:
    """The uuid that `uuid_text` printed; ValueError if the text is none."""
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a uuid: expected 22 characters of URL-safe base64")
    return Uuid(raw)

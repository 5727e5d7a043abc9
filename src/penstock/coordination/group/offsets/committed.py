"""One committed offset: a value to read, and a few dozen bytes to keep.

A shard may hold a million of them. As objects they would take four times the memory, and the
garbage collector would walk over all of them again and again; so each is kept as one string of
bytes, and becomes a `Committed` when somebody looks.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from penstock.model.ids import ZERO_UUID

NO_EXPIRY = -1
"""The node's retention counts: only very old clients say themselves when an offset expires."""

Packed = bytes
"""A `Committed` as it is kept."""

_HEAD = Struct(">qiqq16s")
_pack, _unpack = _HEAD.pack, _HEAD.unpack_from
_METADATA_AT = _HEAD.size
_TIMES = Struct(">qq")
_times = _TIMES.unpack_from
_TIMES_AT = 12
_TOPIC_ID_AT = _TIMES_AT + _TIMES.size


class Committed(NamedTuple):
    """How far a group has come in a partition, and what it wanted to remember about that."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    timestamp: int = 0
    """When it was committed."""
    expires: int = NO_EXPIRY
    topic_id: bytes = ZERO_UUID
    """Of the topic that had the name then; zeros where the client did not know."""


def pack(
    offset: int, leader_epoch: int, metadata: str, timestamp: int, expires: int, topic_id: bytes
) -> Packed:
    """The same as bytes to keep."""
    head = _pack(offset, leader_epoch, timestamp, expires, topic_id)
    return head + metadata.encode() if metadata else head


def unpack(packed: Packed) -> Committed:
    """What was kept."""
    offset, leader_epoch, timestamp, expires, topic_id = _unpack(packed)
    return Committed(
        offset, leader_epoch, packed[_METADATA_AT:].decode(), timestamp, expires, topic_id
    )


def is_expired(packed: Packed, now: int, retention_ms: int, since: int | None) -> bool:
    """Whether it is kept no longer.

    Retention counts from `since`, or from the commit if that is None; what an old client asked for
    goes before.
    """
    timestamp, expires = _times(packed, _TIMES_AT)
    if expires != NO_EXPIRY:
        return bool(now >= expires)
    return bool(now - (timestamp if since is None else since) >= retention_ms)


def topic_id_of(packed: Packed) -> bytes:
    """Of the topic that had the name when the offset was committed."""
    return packed[_TOPIC_ID_AT:_METADATA_AT]

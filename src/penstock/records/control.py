"""Control records: what brokers write between the users' records, under a key of their own.

The key of a control record is (version, type), both 16 bits. Transaction markers are the ones that
every partition meets; the others belong to the metadata log.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from penstock.records.batch import HEAD_SIZE, BatchHead, Bytes
from penstock.records.varint import InvalidRecord, read_varint

ABORT = 0
COMMIT = 1
LEADER_CHANGE = 2
SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
KRAFT_VERSION = 5
KRAFT_VOTERS = 6

KEY = struct.Struct(">hh")  # version, type
END_TXN = struct.Struct(">hi")  # version, coordinator epoch


class EndTxnMarker(NamedTuple):
    """How a transaction ended, and under which epoch of its coordinator."""

    is_commit: bool
    coordinator_epoch: int


def control_type(key: Bytes) -> int:
    """Which kind of control record a key announces. Unknown kinds are to be skipped."""
    if len(key) < KEY.size:
        raise InvalidRecord(f"a control record's key has {len(key)} bytes, not {KEY.size}")
    version, kind = KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"a control record's key has version {version}")
    return int(kind)


def read_marker(view: Bytes, at: int, head: BatchHead) -> EndTxnMarker | None:
    """The transaction marker in the control batch at `at`.

    None where there is none: compaction leaves a control batch without records when nothing of
    its transaction is left, and the metadata log has other kinds. A batch holds at most one.
    """
    if head.count < 1:
        return None
    body, _ = _first_field(view, at + HEAD_SIZE)
    key, position = _field(view, body)
    kind = control_type(key)
    if kind not in (ABORT, COMMIT):
        return None
    value, _ = _field(view, position)
    if len(value) < END_TXN.size:
        raise InvalidRecord(f"a transaction marker has {len(value)} bytes, not {END_TXN.size}")
    version, coordinator_epoch = END_TXN.unpack_from(value)
    if version < 0:
        raise InvalidRecord(f"a transaction marker has version {version}")
    return EndTxnMarker(kind == COMMIT, coordinator_epoch)


def _first_field(view: Bytes, at: int) -> tuple[int, int]:
    """Where the key of the record at `at` begins, and where the record ends."""
    size, at = read_varint(view, at)
    _, position = read_varint(view, at + 1)  # behind the attributes: timestamp delta
    _, position = read_varint(view, position)  # offset delta
    return position, at + size


def _field(view: Bytes, at: int) -> tuple[Bytes, int]:
    size, at = read_varint(view, at)
    if size < 0 or at + size > len(view):
        raise InvalidRecord("a control record has no key, no value, or is cut short")
    return view[at : at + size], at + size

"""The `.txnindex` of a segment: which aborted transactions have their marker in it.

Entries of 34 bytes, in the order of their markers:

    version 2 (= 0) | producer id 8 | first offset 8 | last offset 8 | last stable offset 8

A read-committed consumer gets the list for the range it fetched, and skips those producers'
records from the first offset on until it meets the marker. Most segments have no aborted
transaction, and then no file.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.records.batch import Bytes

SUFFIX = ".txnindex"
VERSION = 0

ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE = ENTRY.size

_LAST = struct.Struct(">q")
_LAST_AT = 18
"""Where in an entry its last offset stands: entries are in that order."""


class CorruptTxnIndex(ValueError):
    """The file is no transaction index, or not this segment's; it can be rebuilt from the log."""


class AbortedTxn(NamedTuple):
    """One aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the abort marker."""
    last_stable_offset: int
    """Where the first transaction still open began when the marker was written."""


def encode_entry(txn: AbortedTxn) -> bytes:
    """The 34 bytes to append to the file."""
    return ENTRY.pack(VERSION, *txn)


def encode_entries(txns: Iterable[AbortedTxn]) -> bytes:
    return b"".join(map(encode_entry, txns))


def decode_entries(data: Bytes, skipped: int = 0) -> Iterator[AbortedTxn]:
    """Whole entries in order; a torn one at the end was never acknowledged and is left out."""
    whole = len(data) - len(data) % ENTRY_SIZE
    for version, *fields in ENTRY.iter_unpack(memoryview(data)[skipped * ENTRY_SIZE : whole]):
        if version > VERSION:
            raise CorruptTxnIndex(f"an aborted transaction of version {version}")
        yield AbortedTxn(*fields)


def check_index(data: Bytes, base_offset: int) -> None:
    """CorruptTxnIndex unless the entries are whole, in order, and of the segment at base_offset."""
    if len(data) % ENTRY_SIZE:
        raise CorruptTxnIndex(f"{len(data)} bytes are not a whole number of entries")
    last = base_offset - 1
    for txn in decode_entries(data):
        if txn.last_offset <= last:
            raise CorruptTxnIndex(f"a marker at {txn.last_offset}, behind one at {last}")
        last = txn.last_offset


def aborted_between(data: Bytes, start: int, end: int) -> tuple[list[AbortedTxn], bool]:
    """Aborted transactions with records in [start, end), and whether the search is complete.

    Incomplete means: look into the next segment's index as well, for a transaction with records
    here may have its marker there.
    """
    found = []
    with memoryview(data) as view:
        # Most readers are near the end, and there may be many before them.
        skipped = bisect_left(
            range(len(view) // ENTRY_SIZE),
            start,
            key=lambda entry: _LAST.unpack_from(view, entry * ENTRY_SIZE + _LAST_AT)[0],
        )
    for txn in decode_entries(data, skipped):
        if txn.first_offset < end:
            found.append(txn)
        if txn.last_stable_offset >= end:
            return found, True
    return found, False


def size_below(data: Bytes, offset: int) -> int:
    """How many bytes of the file to keep when the log is truncated to `offset`."""
    size = 0
    for txn in decode_entries(data):
        if txn.last_offset >= offset:
            break
        size += ENTRY_SIZE
    return size

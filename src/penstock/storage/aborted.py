"""Which transactions in a stretch of a log were aborted, from the segments' transaction indexes."""

from __future__ import annotations

from bisect import bisect_right

from penstock.storage import names
from penstock.storage.log import Log
from penstock.storage.txn_index import AbortedTxn, aborted_between


def aborted_in(log: Log, start: int, end: int) -> list[AbortedTxn]:
    """Aborted transactions with records in [start, end), by the order of their markers."""
    found: list[AbortedTxn] = []
    if not log.has_aborted:
        return found
    segments = log.segments
    disk = log.context.disk
    first = max(bisect_right(segments, start, key=lambda segment: segment.base) - 1, 0)
    for segment in segments[first:]:
        path = segment.path(names.TXN_INDEX)
        if not disk.exists(path):
            continue
        here, complete = aborted_between(disk.read_bytes(path), start, end)
        found += here
        if complete:
            break
    return found

"""Which offsets stand in a slice of a log: its batches, by their heads alone.

A share group takes records out of a slice without reading it: offsets, positions and attributes of
each batch are in its head. What nobody may see (markers of transactions, what was aborted, and
batches that were emptied) is told from the rest by the same heads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.delivery.effects import Span
from penstock.records.batch import CONTROL, HEAD, HEAD_SIZE, PREFIX_SIZE, TRANSACTIONAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.storage.log_slice import LogSlice

WINDOW = 4096
"""Bytes that are read at once: small batches have many heads in it, large ones one."""

LENGTH_MIN = HEAD_SIZE - PREFIX_SIZE


class Batches(NamedTuple):
    """What was found, in the order of the log; the lists go together."""

    spans: list[Span]
    ends: list[int]
    """Where each batch ends, in bytes from the slice's beginning."""
    hidden: list[Span]
    """Those of the spans that hold nothing for anybody."""


def batches_in(
    found: LogSlice, offset: int, count_max: int, aborted: Sequence[tuple[int, int]] = ()
) -> Batches:
    """The whole batches of a slice until they hold `count_max` offsets from `offset` on.

    `aborted` names the producer and first offset of each transaction that was aborted in it.
    """
    spans: list[Span] = []
    ends: list[int] = []
    hidden: list[Span] = []
    veil = _Veil(aborted) if aborted else None
    unpack = HEAD.unpack_from
    file, begin, size = found.file, found.position, found.size
    until = offset + count_max
    at = window_at = 0
    window = b""
    while at + HEAD_SIZE <= size:
        if at + HEAD_SIZE > window_at + len(window):
            window = file.pread(min(WINDOW, size - at), begin + at)
            window_at = at
            if len(window) < HEAD_SIZE:
                break  # the file was cut under our hands
        base, length, _, _, _, attributes, delta, _, _, producer_id, _, _, count = unpack(
            window, at - window_at
        )
        at += length + PREFIX_SIZE
        if at > size or length < LENGTH_MIN:
            break  # cut off where the size limit fell
        span = Span(base, base + delta)
        spans.append(span)
        ends.append(at)
        aside = veil is not None and veil.covers(span, producer_id, attributes)
        if aside or attributes & CONTROL or not count:
            hidden.append(span)
        if span.last + 1 >= until:
            break
    return Batches(spans, ends, hidden)


class _Veil:
    """Tells the batches of aborted transactions, in the order of the log."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._coming = sorted(aborted, key=lambda txn: txn[1], reverse=True)
        self._covered: set[int] = set()

    def covers(self, span: Span, producer_id: int, attributes: int) -> bool:
        """Whether the next batch belongs to a transaction that was aborted."""
        coming = self._coming
        while coming and coming[-1][1] <= span.last:
            self._covered.add(coming.pop()[0])
        if attributes & CONTROL:
            self._covered.discard(producer_id)  # the producer's transaction ends here
            return False
        return attributes & TRANSACTIONAL != 0 and producer_id in self._covered


def cut(found: LogSlice, batches: Batches, first: int, last: int) -> LogSlice:
    """The part of a slice whose batches hold the offsets from `first` to `last`."""
    spans = batches.spans
    begin, end = 0, len(spans) - 1
    while begin < end and spans[begin].last < first:
        begin += 1
    while end > begin and spans[end].first > last:
        end -= 1
    position = batches.ends[begin - 1] if begin else 0
    return type(found)(found.file, found.position + position, batches.ends[end] - position)

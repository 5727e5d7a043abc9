"""Getting delayed records back from where they are parked.

A record's bytes are its key, value and headers as they stand in a batch, lengths and all, so that
nobody has to take them apart: a batch that delivers them puts its own numbers in front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from penstock.platform.disk import File
from penstock.records.varint import InvalidRecord
from penstock.storage.delay_batches import FRONT_MAX, Row, read_notice, read_rows
from penstock.storage.log import Log, OffsetOutOfRange
from penstock.storage.log_slice import LogSlice

FRONT_READ = 16 << 10
"""Bytes that are read of a batch at first: as a rule its rows are among them, or all of it."""

Read = Callable[[File, int, int], bytes | None]
"""Bytes of a file, by size and position; None if whoever asks should not wait for them."""


class Cold(Exception):
    """What is asked for is not in memory: read it where waiting does no harm."""


class Parked(NamedTuple):
    """A delayed record and its bytes; None if the log no longer has them."""

    row: Row
    body: bytes | None


def read_cached(file: File, size: int, position: int) -> bytes | None:
    """For the event loop."""
    return file.pread_cached(size, position)


def read_waiting(file: File, size: int, position: int) -> bytes:
    """For a worker."""
    return file.pread_waiting(size, position)


def locate(log: Log, rows: Sequence[Row]) -> dict[int, LogSlice]:
    """The batches that hold these rows, by their offsets; on the event loop."""
    found: dict[int, LogSlice] = {}
    for place in {row.place for row in rows}:
        try:
            batch = log.read(place, 1, log.end)
        except OffsetOutOfRange:
            continue
        if batch is not None:
            found[place] = batch
    return found


def bodies(
    batches: dict[int, LogSlice], rows: Sequence[Row], size_max: int, read: Read
) -> list[Parked]:
    """The bytes of rows, in their order: of as many as `size_max` allows, and of one at least.

    Cold if `read` would not wait.
    """
    fronts: dict[int, _Front] = {}
    found: list[Parked] = []
    size = 0
    for row in rows:
        batch = batches.get(row.place)
        if batch is None:
            found.append(Parked(row, None))
            continue
        front = fronts.get(row.place)
        if front is None:
            front = fronts[row.place] = _Front(batch, read)
        place = front.places.get(row.id)
        if place is None:
            found.append(Parked(row, None))
            continue
        size += place[1]
        if size > size_max and found:
            break
        found.append(Parked(row, front.read(*place)))
    return found


def bodies_cached(
    batches: dict[int, LogSlice], rows: Sequence[Row], size_max: int
) -> list[Parked] | None:
    """The same without waiting for a disk; None if some are cold."""
    try:
        return bodies(batches, rows, size_max, read_cached)
    except Cold:
        return None


class _Front:
    """Where in a parking batch each of its records lies."""

    __slots__ = ("_batch", "_data", "_read", "places")

    def __init__(self, batch: LogSlice, read: Read) -> None:
        self._batch = batch
        self._read = read
        self._data = self._get(min(max(FRONT_READ, FRONT_MAX), batch.size), 0)
        self.places: dict[int, tuple[int, int]] = {}
        """Position in the batch and size, by id."""
        try:
            self.places.update(self._list())
        except InvalidRecord:
            pass  # no parking batch: what was there is gone

    def _list(self) -> Iterator[tuple[int, tuple[int, int]]]:
        notice = read_notice(self._data)
        if notice.bodies_at > len(self._data):
            self._data = self._get(min(notice.bodies_at, self._batch.size), 0)
        at = notice.bodies_at
        for row in read_rows(self._data, notice):
            yield row.id, (at, row.size)
            at += row.size

    def read(self, at: int, size: int) -> bytes:
        if at + size <= len(self._data):
            return self._data[at : at + size]
        return self._get(size, at)

    def _get(self, size: int, at: int) -> bytes:
        data = self._read(self._batch.file, size, self._batch.position + at)
        if data is None:
            raise Cold
        return data

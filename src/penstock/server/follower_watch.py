"""What changes for a follower between its fetches.

A follower names thousands of partitions once, in a session, and most of them are quiet most of the
time: it has all that there is, and knows it. A watch sits at each of them and notes those that
have something new, so that a fetch looks at these alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.replica import leading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.replica.partition import Partition
    from penstock.server.fetch_sessions import Key


class Parked(Protocol):
    """A fetch of the follower that waits."""

    def progress(self, size: int) -> None: ...

    def marks_moved(self) -> None: ...


class Seat:
    """The watch at one partition."""

    __slots__ = ("key", "partition", "watch")

    def __init__(self, watch: FollowerWatch, key: Key, partition: Partition) -> None:
        self.watch = watch
        self.key = key
        self.partition = partition

    def progress(self, size: int) -> None:
        """More was appended; 0 says to look for another reason."""
        watch = self.watch
        if self.key not in watch.ready:
            # Until this moment the follower had everything, as of its last fetch.
            leading.kept_up(self.partition, watch.node_id, watch.fetched_at)
            watch.ready[self.key] = None
        if watch.parked is not None:
            watch.parked.progress(size)

    def marks_moved(self) -> None:
        """The watermark moved, or the beginning of the log."""
        watch = self.watch
        if self.key not in watch.ready:
            watch.ready[self.key] = None
        if watch.parked is not None:
            watch.parked.marks_moved()

    def displaced(self) -> None:
        """Another session of the same follower sits here now: an old one, perhaps, whose last fetch
        was overtaken. The next fetch looks for itself, and takes the place back."""
        self.watch.lose(self.key)


class FollowerWatch:
    """A follower's partitions, for as long as its session lasts."""

    __slots__ = ("_seats", "fetched_at", "node_id", "parked", "ready")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.fetched_at = 0
        """When the follower last asked."""
        self.ready: dict[Key, None] = {}
        """What the next fetch has to look at."""
        self.parked: Parked | None = None
        self._seats: dict[Key, Seat] = {}

    def sit(self, key: Key, partition: Partition) -> None:
        """Watch a partition; it may be another one than before, under the same name."""
        seat = self._seats.get(key)
        if seat is not None:
            if seat.partition is partition:
                return
            seat.partition.audience.unpark_follower(self.node_id, seat)
        seat = self._seats[key] = Seat(self, key, partition)
        partition.audience.park_follower(self.node_id, seat)

    def lose(self, key: Key) -> None:
        """Nobody watches a partition any more. The fetch that waits is not woken: if it were, two
        that wait would take the place from each other for ever."""
        self._seats.pop(key, None)
        self.ready[key] = None

    def change(self, asked: Iterable[Key], forgotten: Iterable[Key]) -> None:
        """The follower has moved on in some partitions, and has done with others."""
        for key in asked:
            self.ready.pop(key, None)  # who was served goes behind those who were not
            self.ready[key] = None
        for key in forgotten:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        self.ready.pop(key, None)
        seat = self._seats.pop(key, None)
        if seat is not None:
            seat.partition.audience.unpark_follower(self.node_id, seat)

    def close(self) -> None:
        """The session is over."""
        for seat in self._seats.values():
            seat.partition.audience.unpark_follower(self.node_id, seat)
        self._seats.clear()
        self.ready.clear()

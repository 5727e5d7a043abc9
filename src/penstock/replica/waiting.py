"""Who waits at a partition, and for what."""

from __future__ import annotations

from asyncio import Future
from collections import deque
from typing import Protocol

from penstock.model.errors import ErrorCode
from penstock.storage.log import Log

BYTES_UNCOUNTED = 1 << 62
"""Told to those who wait for bytes when nobody counted them: they look for themselves."""


class Awaiting(Protocol):
    """Who is told, once, that an offset was passed, or why it never will be: a future, mostly."""

    def done(self) -> bool: ...

    def set_result(self, result: ErrorCode, /) -> None: ...


Queue = deque[tuple[int, Awaiting]]
"""Who waits for an offset to be passed, in the order of the offsets."""


class Waits:
    """Requests that a partition holds back until something has passed an offset."""

    __slots__ = ("commits", "starts", "syncs")

    def __init__(self) -> None:
        self.commits: Queue = deque()
        """For the watermark."""
        self.syncs: Queue = deque()
        """For what this node has as durably as the topic asks."""
        self.starts: list[tuple[int, Future[ErrorCode]]] = []
        """For the beginning of all live replicas, in any order."""

    def await_commit(self, end: int, who: Awaiting) -> None:
        _park(self.commits, end, who)

    def await_sync(self, end: int, who: Awaiting) -> None:
        _park(self.syncs, end, who)

    def release_commits(self, end: int) -> None:
        _release(self.commits, end)

    def release_syncs(self, end: int) -> None:
        _release(self.syncs, end)

    def release_starts(self, low: int) -> None:
        waiting = [each for each in self.starts if not each[1].done()]
        self.starts = [each for each in waiting if each[0] > low]
        for offset, future in waiting:
            if offset <= low:
                future.set_result(ErrorCode.NONE)

    def release_all(self, error: ErrorCode) -> None:
        """What they wait for will not come to pass here."""
        waiting: list[tuple[int, Awaiting]] = [*self.commits, *self.syncs, *self.starts]
        self.commits.clear()
        self.syncs.clear()
        self.starts = []
        for _, future in waiting:
            if not future.done():
                future.set_result(error)


def _park(queue: Queue, end: int, who: Awaiting) -> None:
    at = len(queue)
    while at and queue[at - 1][0] > end:
        at -= 1  # a retry of what came before others that wait
    queue.insert(at, (end, who))


def _release(queue: Queue, end: int) -> None:
    while queue and queue[0][0] <= end:
        future = queue.popleft()[1]
        if not future.done():
            future.set_result(ErrorCode.NONE)


class Waiter(Protocol):
    """Somebody who is told when there is more to read."""

    def progress(self, size: int) -> None:
        """At most `size` more bytes became readable; 0 says to look for another reason."""


class FollowerWaiter(Waiter, Protocol):
    """A follower that waits: for more in the log, committed or not, and for news of how far the
    leader has come."""

    def marks_moved(self) -> None:
        """The watermark moved, or the beginning of the log."""

    def displaced(self) -> None:
        """Another has taken the place: nothing is told here any more."""


class Audience:
    """Those who are told what happens at a partition, in the order in which they came."""

    __slots__ = ("followers", "readers")

    def __init__(self) -> None:
        self.readers: dict[Waiter, None] = {}
        """Told when more is committed."""
        self.followers: dict[int, FollowerWaiter] = {}
        """Told when there is more in the log; one for each node."""

    def park(self, reader: Waiter) -> None:
        self.readers[reader] = None

    def unpark(self, reader: Waiter) -> None:
        self.readers.pop(reader, None)

    def park_follower(self, node_id: int, follower: FollowerWaiter) -> None:
        before = self.followers.get(node_id)
        self.followers[node_id] = follower
        if before is not None and before is not follower:
            before.displaced()

    def unpark_follower(self, node_id: int, follower: FollowerWaiter) -> None:
        """Unless another has taken the place since."""
        if self.followers.get(node_id) is follower:
            del self.followers[node_id]

    # Who is told may leave, so each round goes over a copy.

    def tell_readers(self, size: int) -> None:
        for reader in list(self.readers):
            reader.progress(size)

    def tell_followers(self, size: int) -> None:
        for follower in list(self.followers.values()):
            follower.progress(size)

    def tell_all(self, size: int) -> None:
        self.tell_readers(size)
        self.tell_followers(size)

    def tell_marks(self) -> None:
        for follower in list(self.followers.values()):
            follower.marks_moved()

    def wake(self, node_id: int) -> None:
        """Let a follower ask again soon, though there is nothing new for it."""
        follower = self.followers.get(node_id)
        if follower is not None:
            follower.marks_moved()


class SyncQueue(Protocol):
    """Makes appended batches durable, many at a time."""

    def wait_synced(self, log: Log, offset: int) -> Future[None]: ...

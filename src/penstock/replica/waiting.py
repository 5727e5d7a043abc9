"""Who waits at a partition, and for what."""

from __future__ import annotations

from asyncio import Future
from collections import deque
from typing import Protocol

from penstock.model.errors import ErrorCode
from penstock.storage.log import Log

BYTES_UNCOUNTED = 1 << 62
"""Told to those who wait for bytes when nobody counted them: they look for themselves."""


Queue = deque[tuple[int, Future[ErrorCode]]]
"""Who waits for an offset to be passed, in the order of the offsets."""


def release(queue: Queue, end: int) -> None:
    """Tell those who waited for `end` or less."""
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


class SyncQueue(Protocol):
    """Makes appended batches durable, many at a time."""

    def wait_synced(self, log: Log, offset: int) -> Future[None]: ...

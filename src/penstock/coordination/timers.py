"""Deadlines of many machines behind one timer of the event loop."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable

from penstock.model.ids import Millis
from penstock.platform.clock import Clock

STALE_MAX = 1024
"""Heap entries that may be out of date before the heap is built anew."""

DUE_PER_TURN = 256
"""Deadlines that are dealt with before requests get their turn."""

TURN_MS = 5
"""How long that may take, and whatever the last of them takes: some stand for a lot of work."""


class Timers:
    """Calls back at each key's deadline. Setting a key again moves its deadline."""

    def __init__(self, clock: Clock, act: Callable[[Hashable], None]) -> None:
        self._clock = clock
        self._act = act
        self._due: dict[Hashable, Millis] = {}
        self._heap: list[tuple[Millis, int, Hashable]] = []
        self._count = 0  # breaks ties: keys need not be comparable
        self._handle: asyncio.TimerHandle | None = None
        self._waking_at: Millis | None = None

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._due

    def set(self, key: Hashable, at: Millis) -> None:
        """Call back at this monotonic time."""
        if self._due.get(key) == at:
            return
        self._due[key] = at
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, key))
        if len(self._heap) > 2 * len(self._due) + STALE_MAX:
            self._compact()
        if self._waking_at is None or at < self._waking_at:
            self._wake_at(at)

    def cancel(self, key: Hashable) -> None:
        """Do not call back."""
        self._due.pop(key, None)

    def cancel_if(self, unwanted: Callable[[Hashable], bool]) -> None:
        """Do not call back for any such key, and forget it altogether."""
        for key in [key for key in self._due if unwanted(key)]:
            del self._due[key]
        self._compact()

    def cancel_all(self) -> None:
        """Call back no more."""
        self._due.clear()
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._waking_at = None

    def _compact(self) -> None:
        # In place: `_wake` may be looking at it.
        self._heap[:] = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
        heapq.heapify(self._heap)

    def _wake_at(self, at: Millis) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._waking_at = at
        wait = max(0, at - self._clock.monotonic()) / 1000
        self._handle = asyncio.get_running_loop().call_later(wait, self._wake)

    def _wake(self) -> None:
        self._handle = self._waking_at = None
        now = self._clock.monotonic()
        heap, due = self._heap, self._due
        done = 0
        while heap and heap[0][0] <= now and done < DUE_PER_TURN:
            at, _, key = heapq.heappop(heap)
            if due.get(key) == at:
                del due[key]
                done += 1
                self._act(key)
                if self._clock.monotonic() - now >= TURN_MS:
                    break
        # What was set meanwhile may have arranged for a later time than the first of the others.
        if heap:
            self._wake_at(heap[0][0])

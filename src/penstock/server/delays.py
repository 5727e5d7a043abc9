"""Delivering delayed records when their time comes.

One timer stands for the earliest of all partitions that this node leads. When it rings, each
partition that has something due gets a task that appends it, a few milliseconds' worth at a time.
A partition that cannot take it now (its disk is full, its replicas are too few) is tried again:
nothing is lost meanwhile, for the log still says that they wait.
"""

from __future__ import annotations

import asyncio
import logging
from heapq import heapify, heappop, heappush
from itertools import count, islice, takewhile
from typing import TYPE_CHECKING

from penstock.replica.delay_delivery import deliver, move
from penstock.replica.outcomes import Refused
from penstock.storage.delay_reading import bodies, bodies_cached, locate, read_waiting
from penstock.storage.delay_rows import NEVER
from penstock.storage.retention import expired_to
from penstock.storage.segment import CorruptSegment

if TYPE_CHECKING:
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.storage.delay_batches import Row
    from penstock.storage.delay_reading import Parked
    from penstock.storage.log import Log

log = logging.getLogger("penstock.server")

LOOK_MS = 1_000
"""The longest sleep: the wall clock may have been set meanwhile."""
SLICE_SECONDS = 0.01
"""What a slice should take at the most, so that others get their turn."""
SLICE_FIRST, SLICE_MIN, SLICE_MAX = 128, 16, 1024
"""Records in a slice: at first, and between these bounds by how long the last one took."""
SLICE_BYTES_MAX = 512 << 10
RETRY_MS, RETRY_MS_MAX = 50, 1_000
STALE_MAX = 512
"""Entries of the queue that count no more, and wait to be thrown away together."""
MOVES_MAX = 100_000
"""Records that are moved for one partition in one round of retention."""


class Delays:
    """The delayed records of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queue: list[tuple[int, int, Partition]] = []
        self._numbers = count()  # so that the queue never compares partitions
        self._due: dict[Partition, int] = {}
        """For when each partition stands in the queue; entries for other times are stale."""
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = NEVER
        self._tasks: dict[Partition, asyncio.Task[None]] = {}
        self._slice = SLICE_FIRST
        self._closed = False
        broker.store.context.on_delay = self._sooner

    def lead(self, partition: Partition) -> None:
        """This node leads the partition: what is due there is its to deliver."""
        delays = partition.log.delays
        if delays is None or self._closed:
            return
        due = delays.earliest
        if due < self._due.get(partition, NEVER):
            self._due[partition] = due
            heappush(self._queue, (due, next(self._numbers), partition))
            if len(self._queue) > 2 * len(self._due) + STALE_MAX:
                self._queue = [each for each in self._queue if self._due.get(each[2]) == each[0]]
                heapify(self._queue)
            self._set_timer()

    def lose(self, partition: Partition) -> None:
        """Another node leads it, or it is gone. A delivery under way sees that by itself."""
        self._due.pop(partition, None)

    def close(self) -> None:
        """The node stops: others deliver, or this one when it is back."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks.values()):
            task.cancel()

    def _sooner(self, changed: Log) -> None:
        partition = self._broker.hosted.get((changed.topic, changed.partition))
        if partition is not None and partition.leading and partition.log is changed:
            self.lead(partition)

    # -- the timer ----------------------------------------------------------------------------

    def _set_timer(self) -> None:
        queue = self._queue
        while queue and self._due.get(queue[0][2]) != queue[0][0]:
            heappop(queue)
        next_due = queue[0][0] if queue else NEVER
        if self._timer is not None:
            if next_due == self._rings_at:
                return
            self._timer.cancel()
            self._timer = None
        self._rings_at = next_due
        if queue and not self._closed:
            wait_ms = min(max(next_due - self._broker.clock.now(), 0), LOOK_MS)
            self._timer = self._broker.loop.call_later(wait_ms / 1000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._broker.clock.now()
        queue = self._queue
        while queue and queue[0][0] <= now:
            due, _, partition = heappop(queue)
            if self._due.get(partition) != due:
                continue
            del self._due[partition]
            if partition not in self._tasks:
                task = self._broker.loop.create_task(self._deliver_all(partition))
                self._tasks[partition] = task
        self._set_timer()

    # -- delivering ---------------------------------------------------------------------------

    async def _deliver_all(self, partition: Partition) -> None:
        """Deliver all that is due, slice by slice."""
        wait_ms = RETRY_MS
        try:
            while partition.leading and not partition.offline and not self._closed:
                problem = await self._deliver_some(partition)
                if problem is None:
                    break
                if not problem:
                    wait_ms = RETRY_MS
                    await asyncio.sleep(0)
                    continue
                if wait_ms == RETRY_MS:  # once, however long it takes
                    log.warning("%s: delayed records have to wait: %s", partition, problem)
                await asyncio.sleep(wait_ms / 1000)
                wait_ms = min(2 * wait_ms, RETRY_MS_MAX)
        except Exception:
            # Our own fault with one partition: the others go on, and it is tried again.
            log.exception("%s: cannot deliver delayed records", partition)
            await asyncio.sleep(RETRY_MS_MAX / 1000)
        finally:
            del self._tasks[partition]
            if partition.leading and not partition.offline:
                self.lead(partition)

    async def _deliver_some(self, partition: Partition) -> str | None:
        """One slice: None if nothing is due, else what stood in the way, if anything did."""
        began = self._broker.loop.time()
        delays, now = partition.log.delays, self._broker.clock.now()
        if delays is None or delays.earliest > now:
            return None
        due = takewhile(lambda row: row.due <= now, delays.waiting.rows_from(-1))
        source, cuts = partition.log, partition.log.truncations
        size_max = min(SLICE_BYTES_MAX, source.config.message_max_bytes)
        try:
            parked = await self.read(source, list(islice(due, self._slice)), size_max)
        except (OSError, CorruptSegment) as problem:
            return f"they cannot be read: {problem}"
        if source.truncations != cuts:
            return ""  # another led meanwhile, whose records may have the same times and names
        result = deliver(partition, parked, self._broker.clock.now())
        if isinstance(result, Refused):
            return result.message or result.error.name
        slow = self._broker.loop.time() - began > SLICE_SECONDS
        self._slice = max(self._slice // 2, SLICE_MIN) if slow else min(2 * self._slice, SLICE_MAX)
        return ""

    async def read(self, source: Log, rows: list[Row], size_max: int) -> list[Parked]:
        """The bytes of delayed records, of as many as `size_max` allows, and of one at least."""
        batches = locate(source, rows)
        found = bodies_cached(batches, rows, size_max)
        if found is not None:
            return found
        return await self._broker.workers.submit(
            lambda: bodies(batches, rows, size_max, read_waiting)
        )

    # -- making way for retention -------------------------------------------------------------

    async def make_way(self) -> None:
        """Move what waits in segments that are about to be deleted to the ends of their logs."""
        for partition in list(self._broker.hosted.values()):
            if partition.leading and partition.log.delays:
                try:
                    await self._move_all(partition)
                except (OSError, CorruptSegment) as problem:
                    log.warning("%s: delayed records stay where they are: %s", partition, problem)
                except Exception:
                    # Our own fault with one partition: retention of all others must go on.
                    log.exception("%s: cannot move delayed records", partition)

    async def _move_all(self, partition: Partition) -> None:
        source, delays = partition.log, partition.log.delays
        now = self._broker.clock.now()
        end = expired_to(source, now)
        rows = delays.waiting.below(end, MOVES_MAX) if delays and end > source.start else []
        if not rows:
            return
        freed = sum(each.size for each in source.segments if each.base < end)
        if end > source.active.base:
            source.roll(now)  # or what is moved would lie beside what is to be deleted
        at = moved = 0
        while at < len(rows) and partition.leading and partition.log is source:
            size_max = min(SLICE_BYTES_MAX, source.config.message_max_bytes)
            cuts = source.truncations
            parked = await self.read(source, rows[at : at + SLICE_FIRST], size_max)
            if source.truncations != cuts:
                return  # another led meanwhile: what was read may be nowhere any more
            moved += sum(len(each.body or b"") for each in parked)
            at += len(parked)
            if moved * len(rows) > freed * at // 2:
                return  # it would write almost as much as it frees, again and again: keep it all
            result = move(partition, parked, self._broker.clock.now())
            if isinstance(result, Refused):
                log.warning("%s: delayed records stay: %s", partition, result.error.name)
                return
            await asyncio.sleep(0)

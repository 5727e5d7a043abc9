"""Share fetches that wait: for more in the log, or for records that come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from penstock.server.share_partition import SharePartition
    from penstock.server.share_reading import ShareReading


class ParkedShareFetch:
    """A share fetch that waits; logs and machines tell it of progress."""

    def __init__(self, reading: ShareReading, wait_ms: int) -> None:
        broker = reading.broker
        self._reading = reading
        self._missing = max(1, reading.size_min - reading.size)
        self._looking = False
        self._must_answer = False
        self.done: asyncio.Future[None] = broker.loop.create_future()
        # Whoever awaits it may be gone before it comes: leaving must not depend on them.
        self.done.add_done_callback(self._leave)
        self._timer = broker.loop.call_later(wait_ms / 1000, self._time_out)
        self._drivers: list[SharePartition] = list(reading.partitions)
        for driver in self._drivers:
            driver.park(self)
            driver.partition.audience.park(self)
        broker.parked_fetches += 1
        broker.parked_partitions += len(self._drivers)
        if reading.hasty:
            self.progress(self._missing)

    def progress(self, size: int) -> None:
        """There may be `size` more bytes to be had, or news of another kind (0)."""
        self._missing -= size
        if size == 0:
            self._must_answer = True
        if (size == 0 or self._missing <= 0) and not self._looking:
            self._looking = True  # once for all that happens before the loop comes round
            self._reading.broker.loop.call_soon(self._look_safely)

    def _time_out(self) -> None:
        self._must_answer = True
        self._look_safely()

    def _look_safely(self) -> None:
        """A fault is an answer, too: all that the client asks after this one waits for it."""
        try:
            self._look()
        except Exception as problem:  # noqa: BLE001 - its connection tells
            if not self.done.done():
                self.done.set_exception(problem)

    def _look(self) -> None:
        self._looking = False
        if self.done.done():
            return
        reading = self._reading
        reading.look()
        if self._must_answer or reading.errors or reading.size >= reading.size_min:
            reading.take()
            if self._must_answer or reading.has_news:
                self.done.set_result(None)
                return
        self._missing = max(1, reading.size_min - reading.size)
        if reading.hasty:
            self.progress(self._missing)

    def _leave(self, _: asyncio.Future[None]) -> None:
        self._timer.cancel()
        for driver in self._drivers:
            driver.unpark(self)
            driver.partition.audience.unpark(self)
        broker = self._reading.broker
        broker.parked_fetches -= 1
        broker.parked_partitions -= len(self._drivers)

"""Fetches that wait for more: a consumer's for what is committed, a follower's for what is there.

What partitions tell a parked fetch is a hint: a reader of committed transactions may see less of
it, or nothing. So the fetch looks again when enough may be there, and is answered only if it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.net.late_reply import LateReply

if TYPE_CHECKING:
    import asyncio

    from penstock.protocol.generated.fetch import FetchResponse
    from penstock.replica.partition import Partition
    from penstock.server.fetch_reading import Reading
    from penstock.server.follower_reading import FollowerReading

NEWS_MS_MAX = 20
"""How long news of a watermark may wait for records to travel with: a busy partition needs no
answers that carry nothing else."""


NEWS_NEAR_MS_MAX = 1
"""The same where consumers read from followers, and wait for the news."""

EARLY_MS = 5
"""How often a fetch that speaks of what this node is about to hear looks whether it has heard."""


class ParkedFetch:
    """A fetch that waits for bytes; its partitions tell it of progress."""

    __slots__ = (
        "_looking",
        "_min_bytes",
        "_missing",
        "_must_answer",
        "_partitions",
        "_reading",
        "_timer",
        "answer",
    )

    def __init__(self, reading: Reading, min_bytes: int, wait_ms: int) -> None:
        broker = reading.broker
        self._reading = reading
        self._min_bytes = min_bytes
        self._missing = min_bytes - reading.size
        self._looking = False
        self._must_answer = False
        self.answer: LateReply[FetchResponse] = LateReply()
        # Whoever awaits the answer may be gone before it comes: leaving must not depend on them.
        self.answer.add_done_callback(self._leave)
        self._timer = broker.loop.call_later(wait_ms / 1000, self._time_out)
        self._partitions = self._park()
        broker.parked_fetches += 1
        broker.parked_partitions += len(self._partitions)

    def _park(self) -> list[Partition]:
        """Let the partitions tell of progress; those that have to be told when it is over."""
        partitions = list(self._reading.partitions())
        for partition in partitions:
            partition.audience.park(self)
        return partitions

    def progress(self, size: int) -> None:
        """A partition may have `size` more bytes to read, or news of another kind (0)."""
        self._missing -= size
        if size == 0:
            self._must_answer = True
        if (size == 0 or self._missing <= 0) and not self._looking:
            self._looking = True  # once for all that is appended before the loop comes round
            self._look_soon()

    def _look_soon(self) -> None:
        self._reading.broker.loop.call_soon(self.look)

    def _time_out(self) -> None:
        self._must_answer = True
        self.look()

    def look(self) -> None:
        """Answer, if there is something to say. A fault is an answer, too: all that the client
        asks after this one waits for it."""
        try:
            self._look()
        except Exception as problem:  # noqa: BLE001 - its connection tells
            if not self.answer.done():
                self.answer.set_exception(problem)

    def _look(self) -> None:
        self._looking = False
        if self.answer.done():
            return
        reading = self._reading
        reading.collect()
        if self._must_answer or reading.urgent or reading.size >= self._min_bytes:
            self.answer.set_result(reading.response())
        else:
            self._missing = self._min_bytes - reading.size

    def _leave(self, _: LateReply[FetchResponse]) -> None:
        self._timer.cancel()
        for partition in self._partitions:
            partition.audience.unpark(self)
        broker = self._reading.broker
        broker.parked_fetches -= 1
        broker.parked_partitions -= len(self._partitions)


class ParkedFollower(ParkedFetch):
    """A follower's fetch; it is answered soon, too, when the leader's marks have moved."""

    __slots__ = ("_follower", "_hastened")

    def __init__(self, reading: FollowerReading, min_bytes: int, wait_ms: int) -> None:
        self._hastened = False
        self._follower = reading
        super().__init__(reading, min_bytes, wait_ms)
        if reading.has_news:
            self.marks_moved()
        self._look_again_if_early()

    def _park(self) -> list[Partition]:
        self._follower.watch.parked = self
        return []

    def _leave(self, answer: LateReply[FetchResponse]) -> None:
        super()._leave(answer)
        watch = self._follower.watch
        if watch.parked is self:
            watch.parked = None

    def _look_soon(self) -> None:
        self._reading.broker.due_followers.add(self)

    def marks_moved(self) -> None:
        """The watermark moved, or the beginning of the log."""
        if not self._hastened:
            self._hastened = True
            broker = self._reading.broker
            loop = broker.loop
            wait_ms = NEWS_NEAR_MS_MAX if broker.rack_aware else NEWS_MS_MAX
            due = min(self._timer.when(), loop.time() + wait_ms / 1000)
            self._timer.cancel()
            self._timer = loop.call_at(due, self._time_out)

    def _look(self) -> None:
        super()._look()
        self._look_again_if_early()

    def _look_again_if_early(self) -> None:
        if self._follower.is_early and not self.answer.done() and not self._looking:
            self._looking = True
            self._reading.broker.loop.call_later(EARLY_MS / 1000, self.look)


class DueFollowers:
    """Fetches of followers for which there is something now.

    They are answered when the loop comes round, all that was appended until then at once. Whoever
    waits for nothing but the followers has them answered on the spot.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parked: list[ParkedFollower] = []
        self._scheduled = False

    def add(self, parked: ParkedFollower) -> None:
        self._parked.append(parked)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._come_round)

    def _come_round(self) -> None:
        self._scheduled = False
        self.answer()

    def answer(self) -> None:
        """Answer them now."""
        if self._parked:
            parked, self._parked = self._parked, []
            for each in parked:
                each.look()

"""Answers to produce requests that wait until their batches are as safe as their producers ask.

With replicas elsewhere, or a topic that is to be synced, that is every answer. So nothing here is a
task or a coroutine: a batch has a place in its partition's queue, and the last one that is released
makes the reply, on the spot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.model.errors import ErrorCode
from penstock.net.late_reply import LateReply
from penstock.server.leaders import point_at_leader

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.protocol.generated.produce import PartitionProduceResponse, ProduceResponse
    from penstock.server.broker import Broker
    from penstock.server.call import Call

Outcome = TypeVar("Outcome")


class Place:
    """Where a batch waits. Its partition's queue takes it for a future, and tells it its fate."""

    __slots__ = ("answer", "fate", "wait")

    def __init__(self, answer: PartitionProduceResponse) -> None:
        self.answer = answer
        self.fate: ErrorCode | None = None
        self.wait: ProduceWait[Any] | None = None

    def done(self) -> bool:
        return self.fate is not None

    def set_result(self, fate: ErrorCode) -> None:
        self.fate = fate
        if self.wait is not None:
            self.wait.one_less()


class ProduceWait(Generic[Outcome]):
    """All batches of a request that wait; `reply` is what `finish` makes of their answers."""

    __slots__ = ("_broker", "_call", "_finish", "_left", "_places", "_response", "_timer", "reply")

    def __init__(
        self,
        broker: Broker,
        call: Call,
        timeout_ms: int,
        places: list[Place],
        response: ProduceResponse,
        finish: Callable[[ProduceResponse], Outcome],
    ) -> None:
        self._broker = broker
        self._call = call
        self._places = places
        self._response = response
        self._finish = finish
        self._left = 0
        for place in places:
            if place.fate is None:
                self._left += 1
                place.wait = self
        self.reply: LateReply[Outcome] = LateReply()
        self._timer = broker.loop.call_later(max(timeout_ms, 0) / 1000, self._time_out)
        if not self._left:
            self._end()

    def one_less(self) -> None:
        """A batch is as safe as it should be, or never will be."""
        self._left -= 1
        if not self._left:
            self._end()

    def _time_out(self) -> None:
        for place in self._places:
            if place.fate is None:
                place.fate = ErrorCode.REQUEST_TIMED_OUT
        self._end()

    def _end(self) -> None:
        self._timer.cancel()
        if self.reply.done():
            return  # whoever asked has gone
        for place in self._places:
            if place.fate:
                place.answer.error_code = place.fate
                place.answer.base_offset = -1
        try:
            reply = self._finish(point_at_leader(self._broker, self._call, self._response))
        except Exception as problem:  # noqa: BLE001 - the connection tells; a partition must go on
            self.reply.set_exception(problem)
        else:
            self.reply.set_result(reply)

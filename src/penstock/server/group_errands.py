"""What group coordinators want done in the world.

Regular expressions are matched in a worker; other errands have a module of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from penstock.server.group_initializations import Initializations

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.consumer.regexes import Resolution
    from penstock.coordination.group.shard import GroupShard
    from penstock.coordination.group.share.initializing import Initialization
    from penstock.model.errors import ErrorCode
    from penstock.server.broker import Broker

log = logging.getLogger("penstock.server")


RUNNING_MAX = 2
"""Errands at once: workers are also there for disks."""

WAITING_MAX = 10_000
"""Errands that may wait. One that is dropped is asked for again a minute later."""


class GroupErrands:
    """Runs the errands of a broker's group shards, and tells the shards what came of them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: deque[tuple[int, Resolution]] = deque(maxlen=WAITING_MAX)
        self._running = 0
        self._initializations = Initializations(broker)

    def run(self, index: int, errand: Resolution | Initialization) -> None:
        """Begin with an errand of a shard, now or when others are done."""
        from penstock.coordination.group.share.initializing import Initialization

        if isinstance(errand, Initialization):
            self._initializations.run(index, errand)
            return
        self._waiting.append((index, errand))
        if self._running < RUNNING_MAX:
            self._begin()

    def _begin(self) -> None:
        index, errand = self._waiting.popleft()
        self._running += 1
        done = self._broker.workers.submit(errand.run)
        done.add_done_callback(lambda it: self._report(index, errand, it))

    def _report(self, index: int, errand: Resolution, done: asyncio.Future[Any]) -> None:
        self._running -= 1
        if self._waiting:
            self._begin()
        if done.cancelled():
            return
        problem = done.exception()
        if problem is not None:
            log.error("group %s: expressions were not resolved", errand.group_id, exc_info=problem)
            return
        # When somebody subscribes so, not when the node starts.
        from penstock.coordination.group.consumer.regexes import on_resolved

        found = errand.shown(done.result())

        def step(shard: GroupShard, at: Moment, out: Effects, ticket: Ticket) -> None:
            on_resolved(shard, found, errand.group_id, at, out)
            out.reply(ticket, _DONE)

        self._broker.coordinators.groups.call_shard(index, step, _nobody_waits)

    def close(self) -> None:
        """The node stops."""
        self._initializations.close()


_DONE: Any = True


def _nobody_waits(error: ErrorCode) -> Any:
    return error

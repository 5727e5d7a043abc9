"""What group coordinators want done in the world: regular expressions matched, in a worker."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.consumer.regexes import Resolution
    from penstock.coordination.group.shard import GroupShard
    from penstock.model.errors import ErrorCode
    from penstock.server.broker import Broker

log = logging.getLogger("penstock.server")


class GroupErrands:
    """Runs the errands of a broker's group shards, and tells the shards what came of them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._running: set[asyncio.Future[Any]] = set()

    def run(self, index: int, errand: Resolution) -> None:
        """Begin with an errand of a shard."""
        done = self._broker.workers.submit(errand.run)
        self._running.add(done)
        done.add_done_callback(lambda it: self._report(index, errand, it))

    def _report(self, index: int, errand: Resolution, done: asyncio.Future[Any]) -> None:
        self._running.discard(done)
        if done.cancelled():
            return
        problem = done.exception()
        if problem is not None:
            log.error("group %s: expressions were not resolved", errand.group_id, exc_info=problem)
            return
        # When somebody subscribes so, not when the node starts.
        from penstock.coordination.group.consumer.regexes import on_resolved

        found = done.result()

        def step(shard: GroupShard, _at: Moment, out: Effects, ticket: Ticket) -> None:
            on_resolved(shard, found, errand.group_id, out)
            out.reply(ticket, _DONE)

        self._broker.coordinators.groups.call_shard(index, step, _nobody_waits)


_DONE: Any = True


def _nobody_waits(error: ErrorCode) -> Any:
    return error

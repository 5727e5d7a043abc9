"""Has share coordinators begin to keep state for share groups, and tells the groups."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from penstock.server.group_share_state import NO_START, begin_state, by_outcome, keys_of

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.shard import GroupShard
    from penstock.coordination.group.share.initializing import Initialization
    from penstock.coordination.share.state import ShareKey
    from penstock.model.errors import ErrorCode
    from penstock.server.broker import Broker

log = logging.getLogger("penstock.server")

RUNNING_MAX = 1_000
"""Errands at once. One that is dropped is asked for again after a while."""


class Initializations:
    """Runs errands of a broker's group shards, each in a task."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: set[ShareKey] = set()
        """Begun by an errand that is not over. A group that waits for long asks again; to begin
        once more, when the first errand is over and members are at it, would undo what they did."""

    def run(self, index: int, errand: Initialization) -> None:
        """Begin with an errand of a shard."""
        if len(self._tasks) >= RUNNING_MAX:
            log.warning("group %s: too many groups begin at a time", errand.group_id)
            return
        task = self._broker.loop.create_task(self._run(index, errand))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """The node stops."""
        for task in list(self._tasks):
            task.cancel()

    async def _run(self, index: int, errand: Initialization) -> None:
        # When a share group begins, not when the node starts.
        from penstock.coordination.group.share.initializing import on_initialized, still_missing

        shard = self._broker.coordinators.groups.shard(index)
        missing = {} if shard is None else still_missing(shard, errand)
        keys = [it for it in keys_of(errand.group_id, missing) if it not in self._under_way]
        if not keys:
            return
        self._under_way.update(keys)
        try:
            errors = await begin_state(self._broker, errand.epoch, dict.fromkeys(keys, NO_START))
        finally:
            self._under_way.difference_update(keys)
        wrong = {error.name for error in errors.values() if error}
        if wrong:
            log.warning("group %s: no share state yet: %s", errand.group_id, ", ".join(wrong))
        done, failed = by_outcome(errand.topics, errors)

        def step(shard: GroupShard, _at: Moment, out: Effects, ticket: Ticket) -> None:
            on_initialized(shard, out, errand.group_id, done, failed)
            out.reply(ticket, _DONE)

        self._broker.coordinators.groups.call_shard(index, step, _nobody_waits)


_DONE: Any = True


def _nobody_waits(error: ErrorCode) -> Any:
    return error

"""Has share coordinators begin to keep state for share groups, and tells the groups."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from penstock.server.share_persister import ShareKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.shard import GroupShard
    from penstock.coordination.group.share.initializing import Initialization
    from penstock.coordination.group.share.readiness import Topics
    from penstock.model.errors import ErrorCode
    from penstock.server.broker import Broker

log = logging.getLogger("penstock.server")

RUNNING_MAX = 1_000
"""Errands at once. One that is dropped is asked for again after a while."""

ASKED_AT_ONCE = 256
"""Partitions of one errand that share coordinators are asked about at a time."""


class Initializations:
    """Runs errands of a broker's group shards, each in a task."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: set[asyncio.Task[None]] = set()

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
        starts = {
            ShareKey(errand.group_id, topic_id, number): NO_OFFSET
            for topic_id, topic in errand.topics.items()
            for number in topic.partitions
        }
        errors = await initialize(self._broker, errand.epoch, starts)
        wrong = {error.name for error in errors.values() if error}
        if wrong:
            log.warning("group %s: no share state yet: %s", errand.group_id, ", ".join(wrong))
        # When a share group begins, not when the node starts.
        from penstock.coordination.group.share.initializing import on_initialized

        done = _where(errand.topics, (key for key, error in errors.items() if not error))
        failed = _where(errand.topics, (key for key, error in errors.items() if error))

        def step(shard: GroupShard, _at: Moment, out: Effects, ticket: Ticket) -> None:
            on_initialized(shard, out, errand.group_id, done, failed)
            out.reply(ticket, _DONE)

        self._broker.coordinators.groups.call_shard(index, step, _nobody_waits)


NO_OFFSET = -1
"""Where a group begins is decided by whoever leads the partition, when it is first read."""


async def initialize(
    broker: Broker, epoch: int, starts: dict[ShareKey, int]
) -> dict[ShareKey, ErrorCode]:
    """Have state begun, at an offset each; what came of it."""
    persister = broker.coordinators.persister
    keys = list(starts)
    errors: dict[ShareKey, ErrorCode] = {}
    for at in range(0, len(keys), ASKED_AT_ONCE):
        some = keys[at : at + ASKED_AT_ONCE]
        asked = (persister.initialize(key, epoch, starts[key]) for key in some)
        errors |= zip(some, await asyncio.gather(*asked), strict=True)
    return errors


def _where(topics: Topics, keys: Iterable[ShareKey]) -> Topics:
    """Those partitions of the topics that are among the keys."""
    numbers: dict[bytes, set[int]] = {}
    for key in keys:
        numbers.setdefault(key.topic_id, set()).add(key.partition)
    return {it: topics[it]._replace(partitions=frozenset(has)) for it, has in numbers.items()}


_DONE: Any = True


def _nobody_waits(error: ErrorCode) -> Any:
    return error

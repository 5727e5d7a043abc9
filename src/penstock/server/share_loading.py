"""What the share coordinator knows, for a leader that begins to deliver to a share group."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from penstock.model.errors import ErrorCode
from penstock.server.share_start import offset_to_begin_at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.coordination.delivery.effects import Held
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.share_persister import ShareKey

Answer = TypeVar("Answer")

RELOAD_MS = 250
RELOAD_MS_MAX = 2_000
"""Between two attempts to reach a coordinator that is not there: it is being elected."""

_PASSES = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    )
)
"""Clients know no such errors of a fetch: they wait as they would for records."""

_FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)

_TOLD = {
    **dict.fromkeys(_FENCED, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE: ErrorCode.CORRUPT_MESSAGE,
}


def told(error: ErrorCode) -> ErrorCode:
    """What a client hears of a refusal; of most that something went wrong."""
    return _TOLD.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)


async def load(broker: Broker, key: ShareKey, partition: Partition, reset: str) -> Held | ErrorCode:
    """What the coordinator holds, with a real offset to start at; or what to tell clients."""
    epoch = partition.leader_epoch
    persister = broker.coordinators.persister
    held = await _ask(lambda: persister.read(key, epoch))
    if not isinstance(held, ErrorCode) and held.start < 0:
        held = await _begin(broker, key, partition, held, reset, epoch)
    if not isinstance(held, ErrorCode):
        return held
    if held not in _FENCED:
        await asyncio.sleep(RELOAD_MS / 1000)  # clients that are refused ask again at once
    return told(held)


async def _begin(
    broker: Broker, key: ShareKey, partition: Partition, held: Held, reset: str, epoch: int
) -> Held | ErrorCode:
    """Choose where the group begins, and have it written down before anything is delivered: to
    begin at the end once more, after a crash, would pass over what came meanwhile."""
    start = offset_to_begin_at(partition, reset, broker.clock.now())
    if isinstance(start, ErrorCode):
        return start
    persister = broker.coordinators.persister
    error = await _ask(lambda: persister.write(key, held.state_epoch, epoch, start, 0, ()))
    return error or held._replace(start=start)


async def _ask(question: Callable[[], Awaitable[Answer]]) -> Answer:
    """The coordinator's answer, after as many attempts as it takes to find it."""
    pause_ms = RELOAD_MS
    while True:
        answer = await question()
        if answer not in _PASSES:
            return answer
        await asyncio.sleep(pause_ms / 1000)
        pause_ms = min(2 * pause_ms, RELOAD_MS_MAX)

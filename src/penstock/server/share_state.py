"""Requests to the share coordinator on this node, key by key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.coordination.share.state import ShareKey, Told

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.share.shard import ShareShard
    from penstock.server.broker import Broker
    from penstock.server.call import Call

Act = Callable[["ShareShard", "Moment", "Effects", ShareKey], Any]
"""What is done to a shard for one key; answers what is to be told."""

Rows = list[tuple[bytes, list[tuple[Any, Any]]]]
"""For each topic of a request, its partitions with what was told about them."""

Response = TypeVar("Response")


def ask_here(broker: Broker, key: ShareKey, act: Act, index: int | None = None) -> Any:
    """What this node's coordinator tells, at once or as a future; `index` if its shard is known."""

    def step(shard: ShareShard, at: Moment, out: Effects, ticket: Ticket) -> None:
        out.reply(ticket, act(shard, at, out, key))

    shares = broker.coordinators.shares
    return shares.call_shard(shares.index_of(key.name) if index is None else index, step, _refuse)


def answer_each(
    broker: Broker,
    call: Call,
    request: Any,
    act: Callable[[Any], Act],
    respond: Callable[[Rows], Response],
) -> Response | Awaitable[Response]:
    """The response to a request about many keys of one group; `act` is given each partition.

    A request that leaves out the group, or what it asks about, has an empty answer, as in Kafka.
    """
    call.account = None  # it is brokers who ask, and quotas are for clients
    if not request.group_id.strip() or not all(topic.partitions for topic in request.topics):
        return respond([])
    rows: Rows = []
    waiting: list[asyncio.Future[Any]] = []
    for topic in request.topics:
        told = []
        for item in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, item.partition)
            answer = ask_here(broker, key, act(item))
            told.append((item, answer))
            if isinstance(answer, asyncio.Future):
                waiting.append(answer)
        rows.append((topic.topic_id, told))
    return _wait(rows, waiting, respond) if waiting else respond(rows)


async def _wait(
    rows: Rows, waiting: list[asyncio.Future[Any]], respond: Callable[[Rows], Response]
) -> Response:
    await asyncio.wait(waiting)
    return respond(
        [
            (
                topic_id,
                [
                    (it, told.result() if isinstance(told, asyncio.Future) else told)
                    for it, told in items
                ],
            )
            for topic_id, items in rows
        ]
    )


def message_of(told: Told) -> str | None:
    """What is said about an error in words."""
    return told.message or (told.error.message if told.error else None)


_refuse: Any = Told

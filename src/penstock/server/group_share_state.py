"""What share coordinators are asked on behalf of a share group, many partitions at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.coordination.share.state import NO_START, ShareKey, Summary

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.shard import GroupShard
    from penstock.coordination.group.share.readiness import Topics
    from penstock.model.errors import ErrorCode
    from penstock.server.broker import Broker

__all__ = [
    "NO_START",
    "ShareKey",
    "Summary",
    "ask_group",
    "begin_state",
    "by_outcome",
    "forget_state",
    "keys_of",
    "summaries",
]

T = TypeVar("T")

ASKED_AT_ONCE = 256
"""Partitions of one request that share coordinators are asked about at a time."""


async def ask_group(
    broker: Broker, group_id: str, act: Callable[[GroupShard, Moment, Effects], T]
) -> T | ErrorCode:
    """What a step of the group's shard answers, or why there is none."""

    def step(shard: GroupShard, at: Moment, out: Effects, ticket: Ticket) -> None:
        said: Any = (act(shard, at, out),)  # even None is an answer
        out.reply(ticket, said)

    def refuse(error: ErrorCode) -> Any:
        return error

    answer = broker.coordinators.groups.call(group_id, step, refuse)
    said: tuple[T] | ErrorCode = await answer if asyncio.isfuture(answer) else answer
    return said[0] if isinstance(said, tuple) else said


def keys_of(group_id: str, topics: Topics) -> list[ShareKey]:
    """The partitions as share coordinators know them."""
    return [
        ShareKey(group_id, topic_id, number)
        for topic_id, topic in topics.items()
        for number in sorted(topic.partitions)
    ]


async def begin_state(
    broker: Broker, epoch: int, starts: Mapping[ShareKey, int]
) -> dict[ShareKey, ErrorCode]:
    """Have state begun, at an offset each; what came of it."""
    persister = broker.coordinators.persister
    return await _of_each(starts, lambda key: persister.initialize(key, epoch, starts[key]))


async def forget_state(broker: Broker, group_id: str, topics: Topics) -> dict[ShareKey, ErrorCode]:
    """Have state forgotten; what came of it."""
    return await _of_each(keys_of(group_id, topics), broker.coordinators.persister.delete)


async def summaries(
    broker: Broker, keys: Iterable[ShareKey]
) -> dict[ShareKey, Summary | ErrorCode]:
    """How far a group has come."""
    return await _of_each(keys, broker.coordinators.persister.summary)


def by_outcome(topics: Topics, errors: Mapping[ShareKey, ErrorCode]) -> tuple[Topics, Topics]:
    """The partitions with which all went well, and the others."""
    done = _where(topics, [key for key, error in errors.items() if not error])
    return done, _where(topics, [key for key, error in errors.items() if error])


def _where(topics: Topics, keys: Iterable[ShareKey]) -> Topics:
    numbers: dict[bytes, set[int]] = {}
    for key in keys:
        numbers.setdefault(key.topic_id, set()).add(key.partition)
    return {it: topics[it]._replace(partitions=frozenset(has)) for it, has in numbers.items()}


async def _of_each(
    keys: Iterable[ShareKey], ask: Callable[[ShareKey], Awaitable[T]]
) -> dict[ShareKey, T]:
    everyone, answers = list(keys), dict[ShareKey, T]()
    for at in range(0, len(everyone), ASKED_AT_ONCE):
        some = everyone[at : at + ASKED_AT_ONCE]
        answers |= zip(some, await asyncio.gather(*map(ask, some)), strict=True)
    return answers

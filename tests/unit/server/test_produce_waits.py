"""Answers to produce requests wait until their batches are safe, and no longer than asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.replica.waiting import Waits
from penstock.server.produce_waits import Place, ProduceWait


def placed(count: int) -> list[Place]:
    return [
        Place(PartitionProduceResponse(index=number, base_offset=10)) for number in range(count)
    ]


def wait(
    places: list[Place],
    timeout_ms: int = 60_000,
    finish: Callable[[ProduceResponse], Any] = lambda response: response,
) -> asyncio.Future[Any]:
    broker = cast(Any, SimpleNamespace(loop=asyncio.get_running_loop()))
    call = cast(Any, SimpleNamespace(version=9))
    topic = TopicProduceResponse(name="t", partition_responses=[each.answer for each in places])
    response = ProduceResponse(responses=[topic])
    return ProduceWait(broker, call, timeout_ms, places, response, finish).reply


def answers(response: ProduceResponse) -> list[tuple[int, int]]:
    parts = response.responses[0].partition_responses
    return [(part.error_code, part.base_offset) for part in parts]


async def test_a_reply_is_made_when_the_last_batch_is_safe() -> None:
    waits, places = Waits(), placed(2)
    waits.commits.extend((end, place) for end, place in zip((5, 7), places, strict=True))
    reply = wait(places)
    waits.release_commits(5)
    assert not reply.done()
    waits.release_commits(7)
    assert reply.done() and answers(reply.result()) == [(0, 10), (0, 10)]


async def test_a_batch_that_will_never_be_safe_is_refused_and_the_others_are_not() -> None:
    waits, places = Waits(), placed(2)
    reply = wait(places)
    places[0].set_result(ErrorCode.NONE)
    waits.commits.append((7, places[1]))
    waits.release_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert answers(reply.result()) == [(0, 10), (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


@pytest.mark.parametrize("timeout_ms", [-1, 0, 1])
async def test_what_is_not_safe_in_time_is_told_so_and_may_be_later(timeout_ms: int) -> None:
    waits, places = Waits(), placed(2)
    waits.commits.append((7, places[1]))
    reply = wait(places, timeout_ms)
    places[0].set_result(ErrorCode.NONE)
    response = await asyncio.wait_for(reply, 5)
    assert answers(response) == [(0, 10), (ErrorCode.REQUEST_TIMED_OUT, -1)]
    waits.release_commits(7)
    assert answers(response)[1] == (ErrorCode.REQUEST_TIMED_OUT, -1)


async def test_who_has_gone_gets_no_reply_and_disturbs_nobody() -> None:
    [place] = places = placed(1)
    reply = wait(places)
    reply.cancel()
    place.set_result(ErrorCode.NONE)
    assert reply.cancelled()


async def test_a_fault_of_ours_is_the_connections_and_not_the_partitions() -> None:
    def fail(_: ProduceResponse) -> None:
        raise ValueError("cannot be written")

    [place] = places = placed(1)
    reply = wait(places, finish=fail)
    place.set_result(ErrorCode.NONE)
    with pytest.raises(ValueError, match="cannot be written"):
        await reply

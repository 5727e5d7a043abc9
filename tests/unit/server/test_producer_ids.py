"""Blocks of producer ids, from a controller that can be made to wait or to refuse."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from penstock.raft.driver import NotLeader
from penstock.server.producer_ids import PREFETCH_AT, ProducerIds

BLOCK = 1000


class FakeController:
    """Allocates blocks, one after another, when its gate is open."""

    def __init__(self) -> None:
        self.asked: list[AllocateProducerIdsRequest] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error = ErrorCode.NONE
        self.failure: Exception | None = None

    async def handle(self, api_key: int, request: Any, **_: Any) -> Any:
        self.asked.append(request)
        first = BLOCK * (len(self.asked) - 1)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return AllocateProducerIdsResponse(
            error_code=self.error, producer_id_start=first, producer_id_len=BLOCK
        )


def made(controller: FakeController) -> ProducerIds:
    return ProducerIds(controller, 3, lambda: 17)


async def test_the_first_id_waits_for_a_block_and_the_next_do_not() -> None:
    controller = FakeController()
    ids = made(controller)
    assert ids.take() is None
    assert await ids.allocate_and_take() == 0
    assert [ids.take() for _ in range(3)] == [1, 2, 3]
    assert [(each.broker_id, each.broker_epoch) for each in controller.asked] == [(3, 17)]


async def test_all_who_wait_share_one_request_and_get_different_ids() -> None:
    controller = FakeController()
    controller.gate.clear()
    ids = made(controller)
    waiting = [asyncio.ensure_future(ids.allocate_and_take()) for _ in range(50)]
    await asyncio.sleep(0)
    controller.gate.set()
    assert sorted(await asyncio.gather(*waiting)) == list(range(50))
    assert len(controller.asked) == 1


async def test_the_next_block_is_asked_for_before_the_first_is_used_up() -> None:
    controller = FakeController()
    ids = made(controller)
    await ids.allocate_and_take()
    for _ in range(BLOCK - PREFETCH_AT - 2):
        ids.take()
    assert len(controller.asked) == 1
    ids.take()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(controller.asked) == 2
    rest = [ids.take() for _ in range(PREFETCH_AT + 50)]
    assert rest == list(range(BLOCK - PREFETCH_AT, BLOCK + 50))


async def test_no_id_is_given_twice_over_many_blocks() -> None:
    ids = made(FakeController())
    taken = [await ids.allocate_and_take() for _ in range(5 * BLOCK)]
    assert len(set(taken)) == len(taken)


async def test_a_refusal_is_an_error_that_producers_retry() -> None:
    controller = FakeController()
    controller.error = ErrorCode.STALE_BROKER_EPOCH
    ids = made(controller)
    assert await ids.allocate_and_take() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    controller.error = ErrorCode.NONE
    assert isinstance(await ids.allocate_and_take(), int)


async def test_a_controller_that_does_not_lead_is_an_error_that_producers_retry() -> None:
    controller = FakeController()
    controller.failure = NotLeader("another node leads")
    assert await made(controller).allocate_and_take() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_one_who_goes_away_does_not_take_the_block_along() -> None:
    controller = FakeController()
    controller.gate.clear()
    ids = made(controller)
    leaving = asyncio.ensure_future(ids.allocate_and_take())
    staying = asyncio.ensure_future(ids.allocate_and_take())
    await asyncio.sleep(0)
    leaving.cancel()
    controller.gate.set()
    assert await staying == 0
    assert leaving.cancelled()

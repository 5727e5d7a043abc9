"""Blocking work leaves the event loop, and its outcome comes back to it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.platform.workers import InlineWorkers, ThreadWorkers, Workers


def _fail() -> None:
    raise OSError("the disk is gone")


async def test_work_runs_on_another_thread_and_answers_on_the_loop() -> None:
    workers = ThreadWorkers(2)
    assert await workers.submit(threading.get_ident) != threading.get_ident()
    workers.close()


@pytest.mark.parametrize("workers", [ThreadWorkers(1), InlineWorkers()])
async def test_a_failure_reaches_whoever_waits(workers: Workers) -> None:
    with pytest.raises(OSError, match="the disk is gone"):
        await workers.submit(_fail)
    assert await workers.submit(lambda: 42) == 42
    workers.close()


async def test_no_more_threads_start_than_allowed_and_all_work_is_done() -> None:
    workers = ThreadWorkers(3)
    names = await asyncio.gather(
        *(workers.submit(lambda: threading.current_thread().name) for _ in range(50))
    )
    assert 1 <= len(set(names)) <= 3
    workers.close()


async def test_idle_threads_are_used_again() -> None:
    workers = ThreadWorkers(8)
    for _ in range(20):
        await workers.submit(lambda: None)
    assert len(workers._threads) == 1
    workers.close()


async def test_closing_waits_for_what_was_submitted() -> None:
    workers = ThreadWorkers(1)
    outcomes = [workers.submit(lambda number=number: number) for number in range(20)]  # type: ignore[misc]
    workers.close()
    assert [each.result() for each in outcomes] == list(range(20))
    with pytest.raises(RuntimeError, match="have ended"):
        await workers.submit(lambda: None)


async def test_somebody_who_no_longer_waits_is_not_told() -> None:
    workers = ThreadWorkers(1)
    gate = threading.Event()
    given_up = workers.submit(gate.wait)
    waiting = workers.submit(lambda: "done")
    given_up.cancel()
    gate.set()
    assert await waiting == "done"
    workers.close()

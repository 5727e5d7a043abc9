"""Blocking work leaves the event loop, and its outcome comes back to it."""

from __future__ import annotations

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

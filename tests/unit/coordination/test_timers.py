"""Deadlines: each comes once, when it is due, and not before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable

import pytest

from penstock.coordination import timers as module
from penstock.coordination.timers import Timers
from penstock.model.ids import Millis
from penstock.platform.clock import SystemClock


class Ringing:
    """Timers on the machine's own clock, and what they rang."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.rung: list[Hashable] = []
        self.timers = Timers(self.clock, self._ring)
        self.again: dict[Hashable, int] = {}
        """Keys that are set again when they ring, to so many milliseconds later."""

    def _ring(self, key: Hashable) -> None:
        self.rung.append(key)
        span = self.again.pop(key, None)
        if span is not None:
            self.set(key, span)

    def set(self, key: Hashable, span_ms: int) -> None:
        self.timers.set(key, Millis(self.clock.monotonic() + span_ms))


async def test_they_ring_in_order_of_their_deadlines() -> None:
    ringing = Ringing()
    for key, span in (("c", 30), ("a", 5), ("b", 15)):
        ringing.set(key, span)
    await asyncio.sleep(0.08)
    assert ringing.rung == ["a", "b", "c"]
    assert len(ringing.timers) == 0


async def test_one_that_is_moved_rings_once_at_its_new_time() -> None:
    ringing = Ringing()
    ringing.set("a", 5)
    ringing.set("a", 40)
    await asyncio.sleep(0.02)
    assert ringing.rung == []
    ringing.set("a", 1)
    await asyncio.sleep(0.06)
    assert ringing.rung == ["a"]


async def test_one_that_is_cancelled_does_not_ring() -> None:
    ringing = Ringing()
    ringing.set("a", 5)
    ringing.set("b", 5)
    ringing.timers.cancel("a")
    await asyncio.sleep(0.03)
    assert ringing.rung == ["b"]


async def test_none_rings_after_all_are_cancelled() -> None:
    ringing = Ringing()
    ringing.set("a", 5)
    ringing.timers.cancel_all()
    await asyncio.sleep(0.02)
    assert ringing.rung == []


async def test_setting_one_anew_as_it_rings_does_not_delay_the_others() -> None:
    ringing = Ringing()
    ringing.again["a"] = 10_000
    ringing.set("a", 1)
    ringing.set("b", 20)
    await asyncio.sleep(0.06)
    assert ringing.rung == ["a", "b"]
    ringing.timers.cancel_all()


async def test_many_that_are_due_at_once_let_others_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "DUE_PER_TURN", 10)
    ringing = Ringing()
    for number in range(25):
        ringing.again[number] = 10_000
        ringing.set(number, 0)
    seen = []
    while len(ringing.rung) < 25:
        seen.append(len(ringing.rung))
        await asyncio.sleep(0)
    assert 10 in seen and 20 in seen
    ringing.timers.cancel_all()


async def test_slow_ones_that_are_due_at_once_let_others_in_between() -> None:
    ringing = Ringing()
    slow = Timers(ringing.clock, lambda key: (time.sleep(0.006), ringing.rung.append(key)))  # type: ignore[func-returns-value,arg-type]
    for number in range(3):
        slow.set(number, ringing.clock.monotonic())
    seen = set()
    while len(ringing.rung) < 3:
        seen.add(len(ringing.rung))
        await asyncio.sleep(0)
    assert seen == {0, 1, 2}


async def test_those_of_one_owner_are_forgotten_without_a_trace() -> None:
    ringing = Ringing()
    for number in range(10):
        ringing.set(("mine", number), 5)
        ringing.set(("yours", number), 5)
    ringing.timers.cancel_if(lambda key: isinstance(key, tuple) and key[0] == "mine")
    assert len(ringing.timers) == len(ringing.timers._heap) == 10
    await asyncio.sleep(0.05)
    assert {key[0] for key in ringing.rung} == {"yours"}  # type: ignore[index]


async def test_the_heap_stays_small_however_often_deadlines_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "STALE_MAX", 16)
    ringing = Ringing()
    for span in range(1000):
        ringing.set("a", 10_000 + span)
    ringing.set("b", 5)
    assert len(ringing.timers._heap) <= 2 * 2 + 16
    await asyncio.sleep(0.03)
    assert ringing.rung == ["b"]
    ringing.timers.cancel_all()


async def test_cleaning_up_while_they_ring_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STALE_MAX", 0)
    ringing = Ringing()
    for number in range(50):
        ringing.again[number] = 5
        ringing.set(number, number % 3)
    await asyncio.sleep(0.1)
    assert sorted(ringing.rung) == sorted([*range(50), *range(50)])  # type: ignore[type-var]

"""Who shakes hands when: a few in each turn of the event loop, and each host in its measure."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

import pytest

from penstock.net import handshakes
from penstock.net.handshakes import SECONDS_MAX, STEPS_AT_ONCE, Handshakes


class Timer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """Runs what it is told to when the test says so."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.later: list[tuple[float, Callable[[], None], Timer]] = []

    def call_soon(self, act: Callable[[], None]) -> None:
        self.soon.append(act)

    def call_later(self, seconds: float, act: Callable[..., None], *arguments: Any) -> Timer:
        timer = Timer()
        self.later.append((seconds, lambda: act(*arguments), timer))
        return timer

    def turn(self) -> None:
        due, self.soon = self.soon, []
        for act in due:
            act()

    def wait(self) -> None:
        for _, act, timer in self.later:
            if not timer.cancelled:
                act()


class Keys:
    def __init__(self) -> None:
        self.made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.failures: list[tuple[str, str]] = []

    def context(self) -> ssl.SSLContext:
        return self.made

    def failed(self, host: str, reason: str) -> None:
        self.failures.append((host, reason))


class Visitor:
    def __init__(self, host: str) -> None:
        self.host = host
        self.steps = 0
        self.aborted = False

    def shake_hands(self) -> None:
        self.steps += 1

    def abort(self) -> None:
        self.aborted = True


class Door:
    """The unfinished handshakes of a listener, and who came to it."""

    def __init__(self) -> None:
        self.keys = Keys()
        loop: Any = Loop()
        self.loop: Loop = loop
        self.unfinished = Handshakes(self.keys, loop, lambda: self.connection)
        self.connection: Any = object()

    def visit(self, host: str = "10.0.0.1") -> Any:
        visitor: Any = Visitor(host)
        self.unfinished.begin(visitor, ssl.MemoryBIO(), ssl.MemoryBIO())
        return visitor


def test_a_few_shake_hands_in_each_turn_and_the_others_after_them() -> None:
    door = Door()
    visitors = [door.visit() for _ in range(2 * STEPS_AT_ONCE + 1)]
    for visitor in visitors:
        door.unfinished.queue(visitor)
    shaken = []
    for _ in range(4):
        door.loop.turn()
        shaken.append(sum(each.steps for each in visitors))
    assert shaken == [STEPS_AT_ONCE, 2 * STEPS_AT_ONCE, len(visitors), len(visitors)]
    assert not door.loop.soon


def test_who_speaks_twice_before_its_turn_has_one_turn() -> None:
    door = Door()
    visitor = door.visit()
    door.unfinished.queue(visitor)
    door.unfinished.queue(visitor)
    door.loop.turn()
    door.loop.turn()
    assert visitor.steps == 1


def test_who_has_left_has_no_turn_and_turns_do_not_multiply() -> None:
    door = Door()
    for _ in range(10):
        visitor = door.visit()
        door.unfinished.queue(visitor)
        door.unfinished.forget(visitor)
    assert len(door.loop.soon) == 1
    door.loop.turn()
    assert visitor.steps == 0
    assert len(door.unfinished) == 0


def test_who_is_done_makes_room_and_is_not_cut() -> None:
    door = Door()
    visitor = door.visit()
    assert door.unfinished.done(visitor) is door.connection
    assert len(door.unfinished) == 0
    door.loop.wait()
    assert not visitor.aborted
    assert not door.keys.failures


def test_who_takes_too_long_is_cut() -> None:
    door = Door()
    visitor = door.visit()
    assert door.loop.later[0][0] == SECONDS_MAX
    door.loop.wait()
    assert visitor.aborted
    assert door.keys.failures == [("10.0.0.1", "too slow to shake hands")]
    assert len(door.unfinished) == 0


def test_beyond_its_share_a_hosts_new_ones_are_refused_and_others_come_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshakes, "UNFINISHED_PER_HOST_MAX", 2)
    door = Door()
    first, second, third = (door.visit("10.0.0.1") for _ in range(3))
    other = door.visit("10.0.0.2")
    assert [each.aborted for each in (first, second, third, other)] == [False, False, True, False]


def test_where_there_are_too_many_those_that_took_longest_give_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshakes, "UNFINISHED_MAX", 3)
    door = Door()
    visitors = [door.visit(f"10.0.0.{number}") for number in range(5)]
    assert [each.aborted for each in visitors] == [True, True, False, False, False]
    assert len(door.unfinished) == 3


def test_a_listener_that_stops_gives_all_up() -> None:
    door = Door()
    visitors = [door.visit() for _ in range(3)]
    door.unfinished.close()
    assert all(each.aborted for each in visitors)
    assert not door.keys.failures

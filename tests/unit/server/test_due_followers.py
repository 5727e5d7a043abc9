"""Followers that wait are answered together, or on the spot for who waits for them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from penstock.net.late_reply import LateReply
from penstock.server.parked_fetches import DueFollowers, ParkedFollower


class Waiting:
    """Stands in for a parked fetch."""

    def __init__(self) -> None:
        self.looks = 0

    def look(self) -> None:
        self.looks += 1


def due(*parked: Waiting) -> DueFollowers:
    made = DueFollowers(asyncio.get_running_loop())
    for each in parked:
        made.add(cast(Any, each))
    return made


async def test_they_are_answered_when_the_loop_comes_round() -> None:
    one, two = Waiting(), Waiting()
    due(one, two)
    assert (one.looks, two.looks) == (0, 0)
    await asyncio.sleep(0)
    assert (one.looks, two.looks) == (1, 1)


async def test_they_are_answered_at_once_for_who_waits_for_them_and_not_again() -> None:
    one, late = Waiting(), Waiting()
    followers = due(one)
    followers.answer()
    assert one.looks == 1
    followers.answer()
    followers.add(cast(Any, late))
    await asyncio.sleep(0)
    assert (one.looks, late.looks) == (1, 1)


async def test_a_fault_in_looking_is_told_to_the_follower_and_to_nobody_else() -> None:
    class Broken(ParkedFollower):
        def __init__(self) -> None:
            self.answer: LateReply[Any] = LateReply()

        def _look(self) -> None:
            raise KeyError("a fault of our own")

    broken, sound = Broken(), Waiting()
    followers = due(cast(Any, broken), sound)
    followers.answer()
    assert isinstance(broken.answer.exception(), KeyError)
    assert sound.looks == 1

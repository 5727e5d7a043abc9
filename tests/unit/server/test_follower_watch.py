"""Two sessions of one follower at one partition: the one that fetches must not starve."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from penstock.replica.waiting import Audience
from penstock.server.follower_watch import FollowerWatch

FOLLOWER = 2
KEY = (b"t" * 16, 0)


class Fetch:
    """One that waits, and counts how often it is woken."""

    def __init__(self) -> None:
        self.woken = 0

    def progress(self, size: int) -> None:
        self.woken += 1

    def marks_moved(self) -> None:
        self.woken += 1


def seated(partition: Any) -> FollowerWatch:
    watch = FollowerWatch(FOLLOWER)
    watch.parked = Fetch()
    watch.sit(KEY, partition)
    watch.ready.clear()
    return watch


def test_who_is_displaced_by_a_fetch_that_was_overtaken_takes_the_place_back() -> None:
    partition = cast(Any, SimpleNamespace(audience=Audience()))
    current = seated(partition)
    seated(partition)  # the last fetch of a session before, which comes late
    assert list(current.ready) == [KEY]
    current.sit(KEY, partition)
    current.ready.clear()
    partition.audience.tell_marks()
    assert list(current.ready) == [KEY]


def test_two_that_wait_do_not_wake_each_other_by_taking_the_place() -> None:
    partition = cast(Any, SimpleNamespace(audience=Audience()))
    one, other = seated(partition), seated(partition)
    one.sit(KEY, partition)
    for watch in (one, other):
        assert isinstance(watch.parked, Fetch) and watch.parked.woken == 0


def test_a_session_that_ends_leaves_the_place_to_who_has_it_now() -> None:
    partition = cast(Any, SimpleNamespace(audience=Audience()))
    old = seated(partition)
    current = seated(partition)
    old.close()
    partition.audience.tell_marks()
    assert list(current.ready) == [KEY]

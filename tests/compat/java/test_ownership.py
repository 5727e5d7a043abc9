"""The judge of ownership is judged by groups that were made up."""

from __future__ import annotations

from tests.compat.java.ownership import owned_twice, owners
from tests.compat.java.programs import Event


def event(what: str, member: str, at: float, *partitions: int) -> Event:
    return {"event": what, "member": member, "at": at, "partitions": list(partitions)}


def test_a_partition_that_two_members_own_at_once_is_found() -> None:
    events = [
        event("assigned", "a", 1, 0, 1),
        event("assigned", "b", 2, 1),
        event("revoked", "a", 3, 1),
    ]
    [found] = owned_twice(events, {})
    assert "partition=1" in found and "member='a'" in found and "member='b'" in found


def test_one_that_was_never_let_go_is_found_as_well() -> None:
    events = [event("assigned", "a", 1, 0), event("assigned", "b", 2, 0)]
    assert len(owned_twice(events, {})) == 1


def test_a_handover_is_none_whichever_process_told_of_it_first() -> None:
    events = [
        event("assigned", "b", 3, 0),
        event("assigned", "a", 1, 0),
        event("revoked", "a", 2, 0),
    ]
    assert owned_twice(events, {}) == []
    assert owners(events) == {0: "b"}


def test_closed_killed_and_lost_members_own_nothing() -> None:
    events = [
        event("assigned", "closed", 1, 0),
        event("assigned", "killed", 1, 1),
        event("assigned", "lost", 1, 2),
        event("closed", "closed", 2),
        event("assigned", "next", 4, 0, 1, 2),
        event("lost", "lost", 5, 2),
    ]
    assert owned_twice(events, {"killed": 3}) == []
    assert owners(events, ["killed"]) == {0: "next", 1: "next", 2: "next"}


def test_a_member_that_owns_before_another_was_killed_is_found() -> None:
    events = [event("assigned", "killed", 1, 0), event("assigned", "next", 2, 0)]
    assert len(owned_twice(events, {"killed": 3})) == 1

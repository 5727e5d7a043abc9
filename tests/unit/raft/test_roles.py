"""The table of what a member may become."""

from __future__ import annotations

from penstock.raft.roles import NEXT, Event, Role


def test_every_role_has_a_way_out() -> None:
    assert {role for role, _ in NEXT} == set(Role)
    assert {event for _, event in NEXT} == set(Event)

"""A member of a share group: what it said, and what it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.coordination.group.consumer.assignors.wish import Partitions

JOINING = 0
LEFT = -1
"""Epochs with a meaning of their own."""

NOTHING: Partitions = {}
NO_TOPICS: frozenset[str] = frozenset()


class Member(NamedTuple):
    """One version of a member; a change makes another one."""

    member_id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = NO_TOPICS
    assigned: Partitions = NOTHING

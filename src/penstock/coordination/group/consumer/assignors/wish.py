"""What an assignor is told, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id. No topic without partitions is in it."""


class Wish(NamedTuple):
    """One member as an assignor sees it."""

    topics: Collection[bytes]
    """The topics that it wants and that exist."""
    owned: Partitions
    """What the last target gave it."""
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, Wish], Mapping[bytes, int]], dict[str, Partitions]]
"""(members, number of partitions by topic id): what each member gets; nothing for the others."""


def frozen(assigned: Mapping[bytes, Collection[int]]) -> Partitions:
    """The same for keeps, without empty topics."""
    return {topic: frozenset(numbers) for topic, numbers in assigned.items() if numbers}

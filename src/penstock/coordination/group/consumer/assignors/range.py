"""The range assignor: neighbouring partitions, the same numbers in every topic.

Members stand in a fixed order, static ones first. Topics that the same members want and that have
equally many partitions are cut at the same places, so that joins by partition number stay with
one member. What somebody had before does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.coordination.group.consumer.assignors.wish import Partitions, Wish


def assign_ranges(
    members: Mapping[str, Wish], counts: Mapping[bytes, int]
) -> dict[str, Partitions]:
    """Cut each topic into one range per member that wants it; the first ones get one more."""
    wanting: dict[bytes, list[str]] = {}
    for member_id in sorted(members, key=lambda it: _place(it, members[it])):
        for topic in members[member_id].topics:
            wanting.setdefault(topic, []).append(member_id)
    assigned: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic, takers in sorted(wanting.items()):  # sets have another order in each process
        least, extra = divmod(counts[topic], len(takers))
        start = 0
        for place, member_id in enumerate(takers):
            end = start + least + (place < extra)
            if end == start:
                break  # more members than partitions: all that follow go without
            assigned[member_id][topic] = frozenset(range(start, end))
            start = end
    return dict(assigned)


def _place(member_id: str, wish: Wish) -> tuple[bool, str]:
    return (True, member_id) if wish.instance_id is None else (False, wish.instance_id)

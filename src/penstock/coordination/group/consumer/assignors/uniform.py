"""The uniform assignor: everybody gets equally many, and as few partitions move as possible.

Where all members want the same topics, two sizes differ by one at most, and only what is above
somebody's share moves. That is one pass over the partitions. `general` deals with the other case.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.assignors.general import assign_generally
from penstock.coordination.group.consumer.assignors.wish import Partitions, frozen

if TYPE_CHECKING:
    from penstock.coordination.group.consumer.assignors.wish import Wish


def assign_uniformly(
    members: Mapping[str, Wish], counts: Mapping[bytes, int]
) -> dict[str, Partitions]:
    """Spread the partitions evenly over the members that want them."""
    if not members:
        return {}
    wishes = iter(members.values())
    first = frozenset(next(wishes).topics)
    if all(_are_same(first, wish.topics) for wish in wishes):
        return _assign_alike(members, sorted(first), counts)
    return assign_generally(members, counts)


def _are_same(first: frozenset[bytes], others: Collection[bytes]) -> bool:
    # Mostly it is the same set, and Python would compare it with itself topic by topic.
    return others is first or (len(others) == len(first) and first.issuperset(others))


def _assign_alike(
    members: Mapping[str, Wish], topics: list[bytes], counts: Mapping[bytes, int]
) -> dict[str, Partitions]:
    total = sum(counts[topic] for topic in topics)
    least, extra = divmod(total, len(members))
    owned = {
        member_id: [
            (topic, number)
            for topic, numbers in sorted(wish.owned.items())
            if topic in counts and topic in wish.topics
            for number in sorted(numbers)
        ]
        for member_id, wish in members.items()
    }
    shares = _shares({member_id: len(has) for member_id, has in owned.items()}, least, extra)
    taken = {partition for has in owned.values() for partition in has}
    free = [
        (topic, number)
        for topic in topics
        for number in range(counts[topic])
        if (topic, number) not in taken
    ]
    for member_id, has in owned.items():
        free += has[shares[member_id] :]
        del has[shares[member_id] :]
    supply = iter(free)
    for member_id, has in owned.items():
        has.extend(next(supply) for _ in range(shares[member_id] - len(has)))
    return {member_id: _by_topic(has) for member_id, has in owned.items()}


def _shares(sizes: Mapping[str, int], least: int, extra: int) -> dict[str, int]:
    """How many each one is due. Who has more than the least already keeps the odd one."""
    rich = [member_id for member_id, size in sizes.items() if size > least][:extra]
    lucky = set(rich)
    poor = [member_id for member_id in sizes if member_id not in lucky]
    lucky.update(poor[len(poor) - (extra - len(rich)) :])
    return {member_id: least + (member_id in lucky) for member_id in sizes}


def _by_topic(partitions: list[tuple[bytes, int]]) -> Partitions:
    topics: dict[bytes, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return frozen(topics)

"""The simple assignor: members share partitions, evenly, and keep what they have if they can.

With more members than partitions each partition has several members; with fewer, each member has
several partitions. Where all members want the same topics, all partitions are shared out at once;
else each topic is shared out for itself among those who want it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.coordination.group.consumer.assignors.wish import Partitions, Wish

SIMPLE = "simple"

_Partition = tuple[bytes, int]


def assign_simply(
    members: Mapping[str, Wish], assignable: Mapping[bytes, Collection[int]]
) -> dict[str, Partitions]:
    """What each member gets of the partitions that may be assigned."""
    wanted = {topic for wish in members.values() for topic in wish.topics}
    wishes = {frozenset(wish.topics) for wish in members.values()}
    # Sorted all the way: two coordinators that know the same decide the same.
    if len(wishes) == 1:
        return _grouped(members, _share_out(members, _listed(wanted, assignable)))
    gets: dict[str, list[_Partition]] = {}
    for topic in sorted(wanted):
        takers = {it: wish for it, wish in members.items() if topic in wish.topics}
        for member_id, partitions in _share_out(takers, _listed([topic], assignable)).items():
            gets.setdefault(member_id, []).extend(partitions)
    return _grouped(members, gets)


def _listed(
    topics: Iterable[bytes], assignable: Mapping[bytes, Collection[int]]
) -> list[_Partition]:
    return [(topic, it) for topic in sorted(topics) for it in sorted(assignable.get(topic, ()))]


def _share_out(
    takers: Mapping[str, Wish], partitions: Sequence[_Partition]
) -> Mapping[str, Collection[_Partition]]:
    """Give each partition to equally many, and each member equally many, or nearly so."""
    if not partitions:
        return {}
    sharing = -(-len(takers) // len(partitions))
    quotas = _quotas(sorted(takers), sharing * len(partitions))
    known = set(partitions)
    keeps: dict[str, set[_Partition]] = {}
    holders: dict[_Partition, list[str]] = {it: [] for it in partitions}
    for member_id, quota in quotas.items():
        owned = takers[member_id].owned
        has = [(topic, it) for topic in sorted(owned) for it in sorted(owned[topic])]
        has = [it for it in has if it in known]
        keeps[member_id] = set(has[max(len(has) - quota, 0) :])
        for partition in keeps[member_id]:
            holders[partition].append(member_id)
    for partition, held_by in holders.items():
        for member_id in held_by[: max(len(held_by) - sharing, 0)]:
            held_by.remove(member_id)
            keeps[member_id].remove(partition)
    _fill(keeps, holders, quotas, sharing)
    return keeps


def _quotas(member_ids: Sequence[str], total: int) -> dict[str, int]:
    """How many each one is due: the total in equal parts, the odd ones spread over all of them."""
    ends = [-(-total * place // len(member_ids)) for place in range(len(member_ids) + 1)]
    return {it: ends[place + 1] - ends[place] for place, it in enumerate(member_ids)}


def _fill(
    keeps: Mapping[str, set[_Partition]],
    holders: Mapping[_Partition, Collection[str]],
    quotas: Mapping[str, int],
    sharing: int,
) -> None:
    """Members that have too little take turns."""
    hungry = [it for it, quota in quotas.items() if len(keeps[it]) < quota]
    turn = 0
    for partition, held_by in holders.items():
        for _ in range(sharing - len(held_by)):
            order = chain(range(turn, len(hungry)), range(turn))
            place = next((it for it in order if partition not in keeps[hungry[it]]), None)
            if place is None:
                break  # all who could take more have it: a little less balance does no harm
            member_id = hungry[place]
            keeps[member_id].add(partition)
            if len(keeps[member_id]) == quotas[member_id]:
                del hungry[place]
                place -= 1
            turn = (place + 1) % len(hungry) if hungry else 0


def _grouped(
    members: Iterable[str], gets: Mapping[str, Collection[_Partition]]
) -> dict[str, Partitions]:
    result: dict[str, Partitions] = {}
    for member_id in members:
        topics: dict[bytes, set[int]] = {}
        for topic, number in sorted(gets.get(member_id, ())):
            topics.setdefault(topic, set()).add(number)
        result[member_id] = {topic: frozenset(numbers) for topic, numbers in topics.items()}
    return result

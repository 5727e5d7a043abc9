"""Even shares where members want different topics.

Three passes. Everybody keeps what they had and still want. What nobody has goes to whoever has
least, beginning with topics that have many partitions for few takers: those leave least choice.
Then, topic by topic, partitions move from who has most to who has least, until nobody's share can
be evened out by two or more, or enough rounds have gone by.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.assignors.wish import Partitions, frozen

if TYPE_CHECKING:
    from penstock.coordination.group.consumer.assignors.wish import Wish

ROUNDS_MAX = 16
"""Over all topics. Most groups are even after two; no group may hold up its coordinator."""


def assign_generally(
    members: Mapping[str, Wish], counts: Mapping[bytes, int]
) -> dict[str, Partitions]:
    """As even as the members' different wishes allow."""
    plan = _Plan(members, counts)
    plan.hand_out()
    for _ in range(ROUNDS_MAX):
        moved = False
        for topic in plan.topics:
            moved = plan.even_out(topic) or moved
        if not moved:
            break
    return {member_id: frozen(topics) for member_id, topics in plan.assigned.items()}


class _Plan:
    """Who has what while it is being decided. Members go by their place in the list."""

    def __init__(self, members: Mapping[str, Wish], counts: Mapping[bytes, int]) -> None:
        self.counts = counts
        self.takers: dict[bytes, list[str]] = {}
        for member_id, wish in members.items():
            for topic in wish.topics:
                self.takers.setdefault(topic, []).append(member_id)
        self.topics = sorted(self.takers, key=self._choice)
        self.place = {member_id: place for place, member_id in enumerate(members)}
        self.assigned: dict[str, dict[bytes, set[int]]] = {
            member_id: {
                topic: set(numbers) for topic, numbers in wish.owned.items() if topic in wish.topics
            }
            for member_id, wish in members.items()
        }
        self.load = {
            member_id: sum(map(len, topics.values())) for member_id, topics in self.assigned.items()
        }

    def _choice(self, topic: bytes) -> tuple[float, int, bytes]:
        takers = len(self.takers[topic])
        return -self.counts[topic] / takers, takers, topic

    def hand_out(self) -> None:
        """Give away what nobody has."""
        for topic in self.topics:
            takers = self.takers[topic]
            taken: set[int] = set()
            taken.update(*(self.assigned[it].get(topic, ()) for it in takers))
            free = [number for number in range(self.counts[topic]) if number not in taken]
            if not free:
                continue
            queue = [(self.load[it], self.place[it], it) for it in takers]
            heapq.heapify(queue)
            for number in free:
                load, place, member_id = queue[0]
                self._give(topic, number, member_id)
                heapq.heapreplace(queue, (load + 1, place, member_id))

    def even_out(self, topic: bytes) -> bool:
        """Move partitions of the topic from those who have most in all to those who have least."""
        takers = self.takers[topic]
        loads = [self.load[it] for it in takers]
        if max(loads) - min(loads) < 2:
            return False
        poor = [(self.load[it], self.place[it], it) for it in takers]
        rich = [(-load, -place, it) for load, place, it in poor if self.assigned[it].get(topic)]
        heapq.heapify(poor)
        heapq.heapify(rich)
        moved = False
        while rich and -rich[0][0] - poor[0][0] >= 2:
            # Nobody is in both roles: a giver ends above all takers' loads but one.
            most, place, giver = rich[0]
            least, at, taker = poor[0]
            numbers = self.assigned[giver][topic]
            number = max(numbers)
            numbers.remove(number)
            self.load[giver] -= 1
            self._give(topic, number, taker)
            moved = True
            heapq.heapreplace(poor, (least + 1, at, taker))
            if numbers:
                heapq.heapreplace(rich, (most + 1, place, giver))
            else:
                heapq.heappop(rich)
        return moved

    def _give(self, topic: bytes, number: int, member_id: str) -> None:
        self.assigned[member_id].setdefault(topic, set()).add(number)
        self.load[member_id] += 1

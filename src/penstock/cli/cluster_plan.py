"""Which replicas go where: plans for draining a broker, filling one, and evening out all of them.

A plan names partitions with their new replicas; those that it does not name stay. It never puts
two replicas of a partition on one broker, or, where it can be helped, in one rack, and it moves as
little as its end allows. The first replica is the one that leads when it can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.cli.failure import Failure
from penstock.cli.places import Place

Replicas = tuple[int, ...]
Plan = dict[Place, Replicas]


class Layout(NamedTuple):
    """Brokers with their racks, and where every partition lies."""

    racks: Mapping[int, str | None]
    replicas: Mapping[Place, Replicas]


class Sheet:
    """A layout that is being changed, with the load of every broker."""

    def __init__(self, layout: Layout, usable: Collection[int]) -> None:
        self.racks = layout.racks
        self.now = dict(layout.replicas)
        self._before = layout.replicas
        self.usable = sorted(usable)
        self.load: Counter[int] = Counter(dict.fromkeys(self.usable, 0))
        self.leads: Counter[int] = Counter(dict.fromkeys(self.usable, 0))
        self.of: dict[int, dict[Place, None]] = {broker: {} for broker in layout.racks}
        """The partitions of each broker, in their order."""
        for place, replicas in self.now.items():
            self._enter(place, replicas)

    def _enter(self, place: Place, replicas: Replicas) -> None:
        for broker in replicas:
            self.load[broker] += 1
            self.of.setdefault(broker, {})[place] = None
        self.leads[replicas[0]] += 1

    def put(self, place: Place, replicas: Replicas) -> None:
        before = self.now[place]
        for broker in before:
            self.load[broker] -= 1
            del self.of[broker][place]
        self.leads[before[0]] -= 1
        self.now[place] = replicas
        self._enter(place, replicas)

    @property
    def plan(self) -> Plan:
        """What has changed."""
        return {place: now for place, now in self.now.items() if now != self._before[place]}

    def crowded(self, replicas: Replicas) -> int:
        """How many replicas share a rack with one before them."""
        racks = [self.racks.get(broker) for broker in replicas]
        named = [rack for rack in racks if rack is not None]
        return len(named) - len(set(named))

    def heir(self, replicas: Replicas, leaving: int) -> int | None:
        """Who takes the place of a broker that leaves a partition: the least loaded that fits."""
        at = replicas.index(leaving)
        rest = replicas[:at] + replicas[at + 1 :]

        def cost(broker: int) -> tuple[int, int, int, int]:
            leads = self.leads[broker] if at == 0 else 0
            return self.crowded((*rest, broker)), self.load[broker], leads, broker

        free = [broker for broker in self.usable if broker not in replicas]
        return min(free, key=cost, default=None)


def drained(layout: Layout, leaving: Collection[int]) -> Plan:
    """Nothing stays on the brokers that leave."""
    sheet = Sheet(layout, [broker for broker in layout.racks if broker not in leaving])
    for place, replicas in layout.replicas.items():
        for broker in replicas:
            if broker not in leaving:
                continue
            heir = sheet.heir(sheet.now[place], broker)
            if heir is None:
                raise Failure(
                    f"{place} has {len(replicas)} replicas, and no other broker is free for the "
                    f"one of broker {broker}",
                    "add a broker first, or lower the topic's replication factor",
                )
            old = sheet.now[place]
            sheet.put(place, tuple(heir if each == broker else each for each in old))
    return sheet.plan


def filled(layout: Layout, broker: int) -> Plan:
    """A new broker takes its share of replicas and of leaders from the others."""
    if broker not in layout.racks:
        raise Failure(f"broker {broker} has not joined", "start it, and try again when it runs")
    sheet = Sheet(layout, layout.racks)
    share = sum(sheet.load.values()) // len(sheet.usable)
    while sheet.load[broker] < share:
        move = _best_move(sheet, to=[broker])
        if move is None:
            break
        sheet.put(*move)
    _even_leaders(sheet)
    return sheet.plan


def evened(layout: Layout) -> Plan:
    """Every broker has as many replicas, and leads as many partitions, as any other."""
    sheet = Sheet(layout, layout.racks)
    while move := _best_move(sheet, to=sheet.usable):
        sheet.put(*move)
    _even_leaders(sheet)
    return sheet.plan


def _best_move(sheet: Sheet, to: list[int]) -> tuple[Place, Replicas] | None:
    """One replica from a broker that has more to one that has less, by two at least."""
    for receiver in sorted(to, key=lambda broker: (sheet.load[broker], broker)):
        for giver in sorted(sheet.usable, key=lambda broker: (-sheet.load[broker], broker)):
            if sheet.load[giver] - sheet.load[receiver] < 2:
                break
            move = _handed_over(sheet, giver, receiver)
            if move is not None:
                return move
    return None


def _handed_over(sheet: Sheet, giver: int, receiver: int) -> tuple[Place, Replicas] | None:
    """A partition whose replica can go over, one that need not change its leader if there is."""
    otherwise = None
    for place in sheet.of[giver]:
        replicas = sheet.now[place]
        if receiver in replicas:
            continue
        new = tuple(receiver if each == giver else each for each in replicas)
        if sheet.crowded(new) > sheet.crowded(replicas):
            continue
        if replicas[0] != giver:
            return place, new
        otherwise = otherwise or (place, new)
    return otherwise


def _even_leaders(sheet: Sheet) -> None:
    """Let others go first in their lists: a matter of who leads, not of where data lies."""
    changed = True
    while changed:
        changed = False
        for place, replicas in sheet.now.items():
            first = replicas[0]
            best = min(replicas, key=lambda broker: (sheet.leads[broker], replicas.index(broker)))
            if sheet.leads[first] - sheet.leads[best] >= 2:
                rest = tuple(each for each in replicas if each != best)
                sheet.put(place, (best, *rest))
                changed = True

"""Which brokers hold a new partition's replicas.

Leaders go round a ring of the usable brokers, in which neighbours are of different racks, from a
random start, so that many small topics load every broker alike. The other replicas follow on the
ring, racks that the partition has not used first, with a step that shifts on every round, so that
the partitions of a dead leader fall to many brokers and not to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.controller.decision import Refusal
from penstock.metadata.topics import DIRECTORY_UNASSIGNED
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.metadata.cluster import BrokerImage
    from penstock.platform.chance import Chance


class Candidate(NamedTuple):
    """A broker that may take a replica."""

    id: int
    rack: str | None
    fenced: bool


def candidates(brokers: Mapping[int, BrokerImage]) -> list[Candidate]:
    """Brokers that take new replicas: registered, staying, and with a directory left to use."""
    return [
        Candidate(b.id, b.rack, b.fenced)
        for b in brokers.values()
        if not b.shutting_down and not _all_cordoned(b)
    ]


def _all_cordoned(broker: BrokerImage) -> bool:
    return bool(broker.cordoned) and set(broker.directories) <= set(broker.cordoned or ())


def directory_for(broker: BrokerImage | None) -> bytes:
    """The one directory that a broker can put a replica into, if it has no choice."""
    if broker is None:
        return DIRECTORY_UNASSIGNED
    usable = [d for d in broker.directories if d not in (broker.cordoned or ())]
    return usable[0] if len(usable) == 1 else DIRECTORY_UNASSIGNED


def place(
    brokers: Sequence[Candidate], start: int, count: int, replicas: int, chance: Chance
) -> list[tuple[int, ...]] | Refusal:
    """Replicas for `count` partitions, the first being number `start`; leaders come first."""
    problem = _impossible(brokers, replicas)
    if problem is not None:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{replicas} replica(s) cannot be placed: {problem}",
        )
    if len(brokers) == 1:
        return [(brokers[0].id,)] * count
    leaders = _ring([b for b in brokers if not b.fenced], chance)
    # Fenced brokers come last: they hold a replica only where the others do not suffice.
    spare = _ring([b for b in brokers if b.fenced], chance)
    first = chance.between(0, len(leaders) - 1)
    return [
        _replicas(leaders, spare, first + index, replicas) for index in range(start, start + count)
    ]


def _impossible(brokers: Sequence[Candidate], replicas: int) -> str | None:
    if all(b.fenced for b in brokers):
        return "every broker is fenced."
    if replicas > len(brokers):
        return f"only {len(brokers)} broker(s) have a log directory that takes replicas."
    return None


def _ring(brokers: Sequence[Candidate], chance: Chance) -> list[Candidate]:
    """The brokers in an order in which neighbours are of different racks where possible."""
    racks: dict[str | None, list[Candidate]] = {}
    for broker in _shuffled(brokers, chance):
        racks.setdefault(broker.rack, []).append(broker)
    shelves = sorted(racks.values(), key=len, reverse=True)
    longest = len(shelves[0]) if shelves else 0
    return [shelf[row] for row in range(longest) for shelf in shelves if row < len(shelf)]


def _shuffled(brokers: Sequence[Candidate], chance: Chance) -> list[Candidate]:
    order = sorted(brokers)
    for last in range(len(order) - 1, 0, -1):
        other = chance.between(0, last)
        order[last], order[other] = order[other], order[last]
    return order


def _replicas(
    ring: list[Candidate], spare: list[Candidate], turn: int, count: int
) -> tuple[int, ...]:
    size = len(ring)
    leader = ring[turn % size]
    chosen = [leader]
    shift = turn // size % (size - 1) if size > 1 else 0
    others = [ring[(turn + 1 + (shift + step) % (size - 1)) % size] for step in range(size - 1)]
    while len(chosen) < count and others:
        # One pass takes a broker from each rack not used in it; the next pass starts afresh.
        used = {leader.rack} if len(chosen) == 1 else set()
        rest = []
        for broker in others:
            if len(chosen) < count and broker.rack not in used:
                used.add(broker.rack)
                chosen.append(broker)
            else:
                rest.append(broker)
        if len(rest) == len(others):  # every broker left is in the leader's rack
            chosen.append(rest.pop(0))
        others = rest
    chosen.extend(spare[: count - len(chosen)])
    return tuple(broker.id for broker in chosen)

"""Partitions of topics: as people name them, and as requests want them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.cli.failure import USAGE, Failure


class Place(NamedTuple):
    """A partition of a topic; written as Kafka's tools write it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Wanted(NamedTuple):
    """A topic, and which of its partitions; None means all of them."""

    topic: str
    partitions: list[int] | None


def wanted_of(word: str) -> Wanted:
    """What a user wrote as `TOPIC`, `TOPIC:0` or `TOPIC:0,2`."""
    topic, colon, numbers = word.partition(":")
    if not colon and topic:
        return Wanted(topic, None)
    listed = numbers.split(",")
    if not topic or not all(one.isascii() and one.isdigit() for one in listed):
        raise Failure(
            f"--topic {word!r} names no partitions", "write TOPIC, TOPIC:0 or TOPIC:0,2,5", USAGE
        )
    return Wanted(topic, [int(one) for one in listed])


def chosen(wanted: Iterable[Wanted], there: Iterable[Place]) -> list[Place]:
    """The partitions that are wanted, each once; `Failure` if one is not `there`."""
    known = by_topic(sorted(there))
    found: dict[Place, None] = {}
    for topic, numbers in wanted:
        partitions = known.get(topic)
        if partitions is None:
            raise Failure(
                f"there is no topic {topic}",
                "`penstock topic list` shows the topics that there are",
            )
        missing = sorted(set(numbers or ()) - set(partitions))
        if missing:
            raise Failure(
                f"topic {topic} has no partition {missing[0]}",
                f"its partitions are {partitions[0]} to {partitions[-1]}",
            )
        found.update(dict.fromkeys(Place(topic, number) for number in numbers or partitions))
    return list(found)


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """Partitions under their topics, as most requests want them."""
    grouped: dict[str, list[int]] = {}
    for place in places:
        grouped.setdefault(place.topic, []).append(place.partition)
    return grouped


def by_leader(leaders: Mapping[Place, int], places: Iterable[Place]) -> dict[int, list[Place]]:
    """Partitions under the broker that leads them; those that nobody leads are left out."""
    grouped: dict[int, list[Place]] = {}
    for place in places:
        leader = leaders.get(place, -1)
        if leader >= 0:
            grouped.setdefault(leader, []).append(place)
    return grouped

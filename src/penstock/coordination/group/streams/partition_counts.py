"""How many partitions the internal topics of an application need.

A repartition topic has as many as its maker asks for, or as many as the most partitioned input of
the subtopologies that write to it. What is joined must be partitioned alike (co-partitioned):
repartition topics follow the others. A changelog has one partition for each task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from penstock.coordination.group.streams.topology import inputs

if TYPE_CHECKING:
    from penstock.coordination.group.streams.topology import Topology
    from penstock.protocol.generated.group_records import CopartitionGroup, Subtopology


class NoTopology(Exception):
    """The topology makes no sense, whatever topics there are."""


class Mispartitioned(Exception):
    """The topics that are there do not fit the topology, or each other."""


def decide_counts(topology: Topology, existing: Mapping[str, int]) -> dict[str, int]:
    """Partitions of all internal topics. `existing` has those of all topics that are there."""
    subtopologies = topology.subtopologies.values()
    fixed = {
        topic.name: topic.partitions
        for it in subtopologies
        for topic in it.repartition_source_topics
        if topic.partitions
    }
    counts = _of_repartition_topics(subtopologies, fixed, existing)
    for it in subtopologies:
        for group in it.copartition_groups:
            counts |= _made_alike(_names(it, group), fixed, counts, existing)
    for it in subtopologies:
        known = [existing.get(name) or counts[name] for name in inputs(it)]
        if not known:
            raise NoTopology(f"Subtopology {it.subtopology_id} reads no topic.")
        for topic in it.state_changelog_topics:
            counts[topic.name] = max(known)
    return counts


def _of_repartition_topics(
    subtopologies: Collection[Subtopology], fixed: Mapping[str, int], existing: Mapping[str, int]
) -> dict[str, int]:
    """From the inputs that are known on, to those who read what is written from them."""
    counts = dict(fixed)
    readers: dict[str, list[Subtopology]] = {}
    for it in subtopologies:
        for topic in it.repartition_source_topics:
            readers.setdefault(topic.name, []).append(it)
    open_ids = {it.subtopology_id for it in subtopologies}
    waiting = deque(subtopologies)
    while waiting:
        it = waiting.popleft()
        count = _largest_input(it, counts, existing) if it.subtopology_id in open_ids else None
        if count is None:
            continue  # done, or it comes again with the first of its inputs
        open_ids.remove(it.subtopology_id)
        for sink in it.repartition_sink_topics:
            if sink not in counts:
                counts[sink] = count
                waiting.extend(readers.get(sink, ()))
    _check_known(subtopologies, counts)
    return counts


def _check_known(subtopologies: Collection[Subtopology], counts: Mapping[str, int]) -> None:
    for it in subtopologies:
        for sink in it.repartition_sink_topics:
            if sink not in counts:
                raise NoTopology(
                    f"Nothing says how many partitions {sink} has: repartition topics may depend "
                    f"on each other in a circle."
                )
        for topic in it.repartition_source_topics:
            if topic.name not in counts:
                raise NoTopology(f"No subtopology writes to the repartition topic {topic.name}.")


def _largest_input(
    subtopology: Subtopology, counts: Mapping[str, int], existing: Mapping[str, int]
) -> int | None:
    """Of the inputs whose partitions are known so far."""
    known = [
        counts[it.name] for it in subtopology.repartition_source_topics if it.name in counts
    ] + [existing[name] for name in subtopology.source_topics if name in existing]
    return max(known, default=None)


def _names(subtopology: Subtopology, group: CopartitionGroup) -> list[str]:
    """The topics of a co-partition group, which names them by their places."""
    sources = [subtopology.source_topics[at] for at in group.source_topics]
    own = [subtopology.repartition_source_topics[at].name for at in group.repartition_source_topics]
    return sources + own


def _made_alike(
    names: list[str],
    fixed: Mapping[str, int],
    counts: Mapping[str, int],
    existing: Mapping[str, int],
) -> dict[str, int]:
    """The same number for all repartition topics of a group, if one fits all its topics."""
    found = {name: existing.get(name) or counts[name] for name in names}
    own = {name: count for name, count in found.items() if name in counts}
    others = {name: count for name, count in found.items() if name not in counts}
    binding = others or {name: count for name, count in own.items() if name in fixed}
    if len(set(binding.values())) > 1:
        raise Mispartitioned(f"These topics must have as many partitions each: {_told(binding)}.")
    if not found:
        return {}
    count = next(iter(binding.values())) if binding else max(own.values())
    unfit = {name: had for name, had in own.items() if name in fixed and had != count}
    if unfit:
        raise Mispartitioned(
            f"These topics must have {count} partitions as their source topics have: "
            f"{_told(unfit)}."
        )
    return dict.fromkeys(own, count)


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in sorted(counts.items())[:10])

"""What it takes to run a topology on this cluster: topics, their partitions, and so many tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.consumer.refusal import Refusal
from penstock.coordination.group.streams.partition_counts import (
    Mispartitioned,
    NoTopology,
    decide_counts,
)
from penstock.coordination.group.streams.status import StatusCode
from penstock.coordination.group.streams.topology import inputs
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.create_topics import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.coordination.group.streams.topology import Topology
    from penstock.metadata.topics import TopicsImage
    from penstock.protocol.generated.group_records import StreamsGroupTopologyValueTopicInfo

NAMES_MAX = 10
"""Names in a sentence that a member is told; a large application has thousands of topics."""

TASKS_MAX = 50_000
"""Of one application: to assign so many takes a second, and nobody else is served meanwhile."""


class Work(NamedTuple):
    """One subtopology, as much of it as there is to do."""

    tasks: int
    stateful: bool
    inputs: frozenset[str]
    """The topics that its tasks read."""


class Configured(NamedTuple):
    """A topology, with what this cluster has to offer to it."""

    topology: Topology
    work: Mapping[str, Work]
    """By subtopology, in order of their ids; none if the topics do not allow it."""
    counts: Mapping[str, int]
    """Of partitions of the application's internal topics."""
    problem: tuple[StatusCode, str] | None = None
    """Why nothing can be run yet."""
    missing: Mapping[str, CreatableTopic] = {}
    """Internal topics to make."""

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure(topology: Topology, topics: TopicsImage) -> Configured | Refusal:
    """Compare what a topology needs with what there is; refused if nothing could ever run it."""
    by_name = topics.by_name
    absent = sorted(
        {
            name
            for it in topology.subtopologies.values()
            for name in it.source_topics
            if name not in by_name
        }
    )
    if absent:
        what = f"There are no such source topics: {_some(absent)}."
        return Configured(topology, {}, {}, (StatusCode.MISSING_SOURCE_TOPICS, what))
    existing = {
        name: len(by_name[name].partitions) for name in topology.required if name in by_name
    }
    try:
        counts = decide_counts(topology, existing)
        missing = _missing(topology, counts, existing)
    except NoTopology as problem:
        return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, str(problem))
    except Mispartitioned as problem:
        code = StatusCode.INCORRECTLY_PARTITIONED_TOPICS
        return Configured(topology, {}, {}, (code, str(problem)))
    work = {
        it.subtopology_id: Work(
            tasks=max(existing.get(name) or counts[name] for name in inputs(it)),
            stateful=bool(it.state_changelog_topics),
            inputs=frozenset(inputs(it)),
        )
        for it in topology.subtopologies.values()
    }
    tasks = sum(it.tasks for it in work.values())
    if tasks > TASKS_MAX:
        what = f"The application would have {tasks} tasks, and {TASKS_MAX} is the most."
        return Configured(topology, {}, {}, (StatusCode.INCORRECTLY_PARTITIONED_TOPICS, what))
    if not missing:
        return Configured(topology, work, counts)
    what = f"There are no such internal topics yet: {_some(sorted(missing))}."
    return Configured(topology, work, counts, (StatusCode.MISSING_INTERNAL_TOPICS, what), missing)


def _missing(
    topology: Topology, counts: Mapping[str, int], existing: Mapping[str, int]
) -> dict[str, CreatableTopic]:
    """Internal topics that are not there; one that is there must have the right partitions."""
    missing = {}
    for subtopology in topology.subtopologies.values():
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
            count = topic.partitions or counts[topic.name]
            found = existing.get(topic.name)
            if found is None:
                missing[topic.name] = _creatable(topic, count)
            elif found != count:
                raise Mispartitioned(
                    f"The internal topic {topic.name} has {found} partitions and should have "
                    f"{count}."
                )
    return missing


def _creatable(topic: StreamsGroupTopologyValueTopicInfo, partitions: int) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=partitions,
        replication_factor=topic.replication_factor or -1,
        configs=[
            CreatableTopicConfig(name=it.key, value=it.value) for it in topic.topic_configs or ()
        ],
    )


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    more = len(shown) - NAMES_MAX
    return ", ".join(shown[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")

"""What an application computes: subtopologies, the topics they read, and those that are their own.

Topics that applications make for themselves are internal to them: changelogs, which keep the state
of a subtopology, and repartition topics, by which one subtopology hands records to another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.generated.group_records import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    StreamsGroupTopologyValueTopicInfo,
    Subtopology,
    TopicConfig,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.protocol.generated import streams_group_heartbeat as asked


class Topology:
    """A topology as the log keeps it, with what is asked of it most."""

    __slots__ = ("epoch", "record", "required", "subtopologies", "subtopology_of")

    def __init__(self, record: StreamsGroupTopologyValue) -> None:
        self.record = record
        self.epoch = record.epoch
        self.subtopologies = {
            it.subtopology_id: it
            for it in sorted(record.subtopologies, key=lambda it: it.subtopology_id)
        }
        self.subtopology_of = {
            name: it.subtopology_id for it in self.subtopologies.values() for name in inputs(it)
        }
        """By the topics that are read, internal ones included."""
        self.required = frozenset(
            name
            for it in self.subtopologies.values()
            for name in (*inputs(it), *(each.name for each in it.state_changelog_topics))
        )
        """All topics that must be there."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topology):
            return NotImplemented
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies

    __hash__ = None  # type: ignore[assignment]


def inputs(subtopology: Subtopology) -> Iterator[str]:
    """The topics that a subtopology reads."""
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def topology_of(asked: asked.Topology) -> Topology:
    """A topology as a member told it."""
    return Topology(
        StreamsGroupTopologyValue(
            epoch=asked.epoch,
            subtopologies=[
                Subtopology(
                    subtopology_id=it.subtopology_id,
                    source_topics=it.source_topics,
                    source_topic_regex=it.source_topic_regex,
                    state_changelog_topics=_topics(it.state_changelog_topics),
                    repartition_sink_topics=it.repartition_sink_topics,
                    repartition_source_topics=_topics(it.repartition_source_topics),
                    copartition_groups=[
                        CopartitionGroup(
                            source_topics=group.source_topics,
                            source_topic_regex=group.source_topic_regex,
                            repartition_source_topics=group.repartition_source_topics,
                        )
                        for group in it.copartition_groups
                    ],
                )
                for it in asked.subtopologies
            ],
        )
    )


def _topics(topics: Iterable[asked.TopicInfo]) -> list[StreamsGroupTopologyValueTopicInfo]:
    return [
        StreamsGroupTopologyValueTopicInfo(
            name=it.name,
            partitions=it.partitions,
            replication_factor=it.replication_factor,
            topic_configs=[
                TopicConfig(key=each.key, value=each.value) for each in it.topic_configs
            ],
        )
        for it in topics
    ]

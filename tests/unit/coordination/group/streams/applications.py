"""Topologies of small applications, as members tell them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.protocol.generated.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    Subtopology,
    TopicInfo,
    Topology,
)


def internal(name: str, partitions: int = 0, **configs: str) -> TopicInfo:
    """A topic that an application wants for itself."""
    pairs = [KeyValue(key=key.replace("_", "."), value=text) for key, text in configs.items()]
    return TopicInfo(name=name, partitions=partitions, topic_configs=pairs)


def subtopology(
    name: str,
    *sources: str,
    changelogs: Sequence[TopicInfo] = (),
    reads: Sequence[TopicInfo] = (),
    writes: Sequence[str] = (),
    together: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> Subtopology:
    """`together` are co-partition groups: places of sources, and places among what it reads."""
    return Subtopology(
        subtopology_id=name,
        source_topics=list(sources),
        state_changelog_topics=list(changelogs),
        repartition_source_topics=list(reads),
        repartition_sink_topics=list(writes),
        copartition_groups=[
            CopartitionGroup(source_topics=list(some), repartition_source_topics=list(others))
            for some, others in together
        ],
    )


def application(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(subtopologies))


def stateless(*sources: str) -> Topology:
    """Reads, and writes elsewhere."""
    return application(subtopology("0", *sources))


def stateful(source: str) -> Topology:
    """Keeps what it has read, in a changelog that is named after its source."""
    return application(subtopology("0", source, changelogs=[internal(f"{source}-changelog")]))


def word_count(source: str) -> Topology:
    """Splits lines, hands words on by a repartition topic, and counts them."""
    handed_on = f"{source}-handed-on"
    return application(
        subtopology("0", source, writes=[handed_on]),
        subtopology(
            "1",
            changelogs=[internal(f"{source}-changelog", cleanup_policy="compact")],
            reads=[internal(handed_on, cleanup_policy="delete")],
            together=[((), (0,))],
        ),
    )

"""A group's committed offsets, and the offsets of partitions to hold them against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.cli.failure import Failures
from penstock.cli.places import Place, by_leader, by_topic
from penstock.cli.wire_cluster import GROUP, Cluster, Refusal, check
from penstock.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from penstock.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)

EARLIEST, LATEST = -2, -1
"""The two times that ListOffsets takes for a place rather than a time."""

_FETCH_VERSION_MAX = 7  # the last that asks for one group; every broker knows it
_COMMIT_VERSION_MAX = 9  # the last that calls topics by their names


def committed(cluster: Cluster, group: str) -> dict[Place, int]:
    """All that a group has committed, by topic and partition."""
    return cluster.patiently(lambda: _committed_once(cluster, group))


def _committed_once(cluster: Cluster, group: str) -> dict[Place, int]:
    what = f"the offsets of group {group} are not known"
    request = OffsetFetchRequest(group_id=group, topics=None)
    node = cluster.node(cluster.coordinator(GROUP, group).id)
    told = node.ask(request, OffsetFetchResponse, _FETCH_VERSION_MAX)
    check(told.error_code, what)
    found = {}
    for topic in told.topics:
        for partition in topic.partitions:
            place = Place(topic.name, partition.partition_index)
            check(partition.error_code, f"the offset of group {group} in {place} is not known")
            if partition.committed_offset >= 0:
                found[place] = partition.committed_offset
    return dict(sorted(found.items()))


def offsets_at(cluster: Cluster, places: Iterable[Place], time_ms: int) -> dict[Place, int]:
    """The first offset at or after a time, or `EARLIEST` or `LATEST`, of each partition.

    -1 where no record is that young. Partitions that are not there, or that nobody leads, are
    not in the answer.
    """
    wanted = list(places)
    return cluster.patiently(lambda: _offsets_once(cluster, wanted, time_ms))


def _offsets_once(cluster: Cluster, places: list[Place], time_ms: int) -> dict[Place, int]:
    leaders = cluster.leaders({place.topic for place in places})
    found = {}
    for leader, led in by_leader(leaders, places).items():
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=number, timestamp=time_ms)
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(led).items()
        ]
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        for told in cluster.node(leader).ask(request, ListOffsetsResponse).topics:
            for one in told.partitions:
                place = Place(told.name, one.partition_index)
                check(one.error_code, f"the offsets of {place} are not known")
                found[place] = one.offset
    return found


def commit(cluster: Cluster, group: str, offsets: Mapping[Place, int]) -> None:
    """Commit offsets for a group in which nobody is; `Refusal` if somebody is."""
    cluster.patiently(lambda: _commit_once(cluster, group, offsets))


def _commit_once(cluster: Cluster, group: str, offsets: Mapping[Place, int]) -> None:
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=number, committed_offset=offsets[Place(topic, number)]
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics
    )
    node = cluster.node(cluster.coordinator(GROUP, group).id)
    for told in node.ask(request, OffsetCommitResponse, _COMMIT_VERSION_MAX).topics:
        for one in told.partitions:
            place = Place(told.name, one.partition_index)
            check(one.error_code, f"the offset of group {group} in {place} was not set")


def forget(cluster: Cluster, group: str, places: Iterable[Place]) -> tuple[list[Place], Failures]:
    """Delete a group's offsets in some partitions: where it was done, and what went wrong."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in numbers],
        )
        for topic, numbers in by_topic(places).items()
    ]

    def once() -> OffsetDeleteResponse:
        node = cluster.node(cluster.coordinator(GROUP, group).id)
        told = node.ask(OffsetDeleteRequest(group_id=group, topics=topics), OffsetDeleteResponse)
        check(told.error_code, f"offsets of group {group} were not deleted")
        return told

    done: list[Place] = []
    failures = Failures()
    for told in cluster.patiently(once).topics:
        for one in told.partitions:
            place = Place(told.name, one.partition_index)
            if one.error_code:
                what = f"the offset of group {group} in {place} was not deleted"
                failures.add(Refusal(one.error_code, what))
            else:
                done.append(place)
    return done, failures

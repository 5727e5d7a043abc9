"""What a cluster tells about its share groups, and moving where they start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.cli import group_offsets, groups
from penstock.cli.failure import Failure
from penstock.cli.output import Table
from penstock.cli.places import Place, Wanted, by_topic
from penstock.cli.wire_cluster import GROUP, Cluster, Refusal, check
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from penstock.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from penstock.protocol.generated.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from penstock.protocol.generated.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

Document = dict[str, Any]

GROUP_RESOURCE = 32
SET_FOR_GROUP = 8
"""A group, and a value that comes from the group's own configuration, as DescribeConfigs numbers
them."""

MEASURED = ("topic", "partition", "start", "end", "ahead", "lag")


def describe(cluster: Cluster, name: str) -> Document:
    """A share group, its coordinator and its members; `Refusal` if there is no such group."""

    def once() -> Document:
        coordinator = cluster.coordinator(GROUP, name)
        told = _told(cluster, coordinator.id, name)
        return {
            "group": name,
            "coordinator": coordinator._asdict(),
            "type": "share",
            "state": groups.word_of(told.group_state),
            "assignor": told.assignor_name,
            "epoch": told.group_epoch,
            "members": [
                {
                    "member": one.member_id,
                    "client": one.client_id,
                    "host": one.client_host.removeprefix("/"),
                    "rack": one.rack_id,
                    "epoch": one.member_epoch,
                    "topics": sorted(one.subscribed_topic_names),
                    "assignment": {
                        each.topic_name: sorted(each.partitions)
                        for each in one.assignment.topic_partitions
                    },
                }
                for one in sorted(told.members, key=lambda one: one.member_id)
            ],
        }

    return cluster.patiently(once)


def _told(cluster: Cluster, coordinator: int, name: str) -> DescribedGroup:
    request = ShareGroupDescribeRequest(group_ids=[name])
    told = cluster.node(coordinator).ask(request, ShareGroupDescribeResponse).groups[0]
    what = f"share group {name} cannot be described"
    if told.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise _missing(told.error_code, what, told.error_message)
    check(told.error_code, what, told.error_message)
    return told


def _missing(code: int, what: str, told: str | None) -> Refusal:
    refusal = Refusal(code, what, told)
    refusal.hint = "`penstock share list` shows the share groups that there are"
    return refusal


def starts(cluster: Cluster, name: str) -> dict[Place, int]:
    """Where a share group starts in each partition that it has begun."""
    return {place: start for place, (start, _) in _offsets(cluster, name).items()}


def measure(cluster: Cluster, name: str) -> list[Document]:
    """A line for each partition that the group has begun; None for what is not known."""
    offsets = _offsets(cluster, name)
    ends = group_offsets.offsets_at(cluster, offsets, group_offsets.LATEST)
    return [
        line(place, start, ends.get(place), lag) for place, (start, lag) in sorted(offsets.items())
    ]


def line(place: Place, start: int, end: int | None, lag: int | None) -> Document:
    """How far a group is in one partition. What is neither behind nor at the end lies ahead."""
    ahead = None if end is None or lag is None else max(0, end - start - lag)
    return dict(zip(MEASURED, (*place, start, end, ahead, lag), strict=True))


def _offsets(cluster: Cluster, name: str) -> dict[Place, tuple[int, int | None]]:
    """Start and lag of each partition that the group has begun; the lag is None if not known."""
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[wanted])

    def once() -> dict[Place, tuple[int, int | None]]:
        node = cluster.node(cluster.coordinator(GROUP, name).id)
        told = node.ask(request, DescribeShareGroupOffsetsResponse).groups[0]
        what = f"the offsets of share group {name} are not known"
        if told.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise _missing(told.error_code, what, told.error_message)
        check(told.error_code, what, told.error_message)
        found: dict[Place, tuple[int, int | None]] = {}
        for topic in told.topics:
            for one in topic.partitions:
                place = Place(topic.topic_name, one.partition_index)
                about = f"the offset of share group {name} in {place} is not known"
                check(one.error_code, about, one.error_message)
                if one.start_offset >= 0:
                    found[place] = one.start_offset, one.lag if one.lag >= 0 else None
        return found

    return cluster.patiently(once)


def settings_of(cluster: Cluster, name: str) -> dict[str, str | None]:
    """What is set for this group, and not for all of them; nothing where we may not ask."""
    resource = DescribeConfigsResource(resource_type=GROUP_RESOURCE, resource_name=name)
    told = cluster.anyone.ask(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)
    return {
        one.name: one.value
        for result in told.results
        if not result.error_code
        for one in sorted(result.configs, key=lambda one: one.name)
        if one.config_source == SET_FOR_GROUP
    }


def scope(
    cluster: Cluster, name: str, wanted: Sequence[Wanted], begun: Mapping[Place, int]
) -> list[Place]:
    """The partitions to move in: those that are wanted, or for none all that the group began."""
    if wanted:
        return cluster.places(wanted)
    if not begun:
        raise Failure(
            f"share group {name} has begun nowhere, so there is nothing to move",
            "name the partitions with --topic",
        )
    return sorted(begun)


def refuse_if_active(described: Document) -> None:
    """`Failure` if the group has members: what they hold would be lost to them."""
    members = len(described["members"])
    if members:
        raise Failure(
            f"share group {described['group']} is {described['state']} with {members} "
            f"member{'s' * (members != 1)}, and its offsets are theirs",
            "stop its members first; `penstock share describe` shows them",
        )


def alter(cluster: Cluster, name: str, offsets: Mapping[Place, int]) -> None:
    """Let an empty share group start elsewhere; `Refusal` if any partition could not be moved."""
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=topic,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(
                    partition_index=number, start_offset=offsets[Place(topic, number)]
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(sorted(offsets)).items()
    ]
    request = AlterShareGroupOffsetsRequest(group_id=name, topics=topics)

    def once() -> None:
        node = cluster.node(cluster.coordinator(GROUP, name).id)
        told = node.ask(request, AlterShareGroupOffsetsResponse)
        check(told.error_code, f"share group {name} was not moved", told.error_message)
        for topic in told.responses:
            for one in topic.partitions:
                place = Place(topic.topic_name, one.partition_index)
                what = f"the start of share group {name} in {place} was not set"
                check(one.error_code, what, one.error_message)

    cluster.patiently(once)


def tables(document: Document) -> list[Table]:
    """A share group for people: itself, its members, where it is, and what is set for it."""
    made = groups.tables(document)
    if document["offsets"]:
        made.append(Table(MEASURED, [list(one.values()) for one in document["offsets"]]))
    if document["settings"]:
        made.append(
            Table(("setting", "value"), [list(one) for one in document["settings"].items()])
        )
    return made

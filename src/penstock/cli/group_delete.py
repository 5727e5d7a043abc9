"""Deleting groups, and offsets of groups."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli import group_offsets
from penstock.cli.failure import Failures, say
from penstock.cli.places import Wanted
from penstock.cli.wire_cluster import GROUP, Cluster, Refusal, check
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


def delete_group(cluster: Cluster, name: str, *, if_exists: bool) -> None:
    """Delete a group and all that it has committed; `Refusal` while it has members."""

    def once() -> None:
        node = cluster.node(cluster.coordinator(GROUP, name).id)
        told = node.ask(DeleteGroupsRequest(groups_names=[name]), DeleteGroupsResponse)
        check(told.results[0].error_code, f"group {name} was not deleted")

    try:
        cluster.patiently(once)
    except Refusal as refusal:
        if not (if_exists and refusal.code == ErrorCode.GROUP_ID_NOT_FOUND):
            raise
        say(f"group {name} is not there")
    else:
        say(f"deleted group {name}")


def delete_offsets(
    cluster: Cluster, name: str, wanted: Sequence[Wanted], failures: Failures
) -> None:
    """Delete what a group has committed in some partitions, as far as it goes."""
    committed = group_offsets.committed(cluster, name)
    # What the group has committed can be forgotten even where the topic is no more.
    places = cluster.places(wanted, committed)
    done, refused = group_offsets.forget(cluster, name, places)
    if done:
        say(f"deleted offsets of group {name} in {', '.join(map(str, done))}")
    failures.extend(refused)

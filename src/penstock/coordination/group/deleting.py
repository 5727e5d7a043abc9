"""Deleting groups, and single offsets of groups that live on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.coordination.group.offsets.tombstones import forget_all, tombstone
from penstock.coordination.group.share.group import ShareGroup
from penstock.coordination.group.share.offsets import begin_forgetting_all
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from penstock.protocol.generated.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.group import Group
    from penstock.coordination.group.shard import GroupShard
    from penstock.coordination.group.share.readiness import Topics
    from penstock.protocol.generated.offset_delete import OffsetDeleteRequestTopic


class StateFirst(NamedTuple):
    """Instead of an answer: what share coordinators know of a group that is to be deleted."""

    group_id: str
    topics: Topics


def delete_group(
    shard: GroupShard,
    at: Moment,  # noqa: ARG001
    out: Effects,
    ticket: Ticket,
    group_id: str,
    *,
    state_is_gone: bool = False,
) -> None:
    """Delete a group if it has no members, with all that it committed.

    The reply is a DeleteGroupsResponse; or, for a share group, the state that share coordinators
    have to forget before it is asked for again, with `state_is_gone`.
    """
    # Its offsets may fill several batches. Its own records go last: if the log takes only some of
    # it, the group is still there and can be deleted again.
    out.atomic = False
    group = shard.groups.get(group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
    if isinstance(group, ShareGroup) and not error:
        state = begin_forgetting_all(shard, out, group, again=state_is_gone)
        if state:
            first: Any = StateFirst(group_id, state)
            out.reply(ticket, first)
            return
    if group is not None and not error:
        forget_all(shard, group_id, out)
        group.delete(out)
    result = DeletableGroupResult(group_id=group_id, error_code=error)
    out.reply(ticket, DeleteGroupsResponse(results=[result]))


def delete_offsets(
    shard: GroupShard,
    at: Moment,  # noqa: ARG001
    out: Effects,
    ticket: Ticket,
    group_id: str,
    topics: Sequence[OffsetDeleteRequestTopic],
) -> None:
    """Forget offsets of topics that no member subscribes to."""
    group = shard.groups.get(group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else _check_delete_offsets(group)
    if group is None or error:
        out.reply(ticket, OffsetDeleteResponse(error_code=error))
        return
    out.atomic = False
    answers = []
    for topic in topics:
        is_used = group.subscribes_to(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_used else ErrorCode.NONE
        answers.append(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=each.partition_index, error_code=error
                    )
                    for each in topic.partitions
                ],
            )
        )
        if not is_used:
            for each in topic.partitions:
                _forget(shard, group_id, topic.name, each.partition_index, out)
    out.reply(ticket, OffsetDeleteResponse(topics=answers))


def _check_delete_offsets(group: Group) -> ErrorCode:
    """What members of other protocols read nobody knows: all of it may be in use."""
    if group.kind == "share":
        return ErrorCode.GROUP_ID_NOT_FOUND  # no consumer group has this name
    if group.kind == "classic" and not group.is_empty and group.protocol_type != "consumer":
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _forget(shard: GroupShard, group_id: str, topic: str, partition: int, out: Effects) -> None:
    table = shard.offsets
    if table.find(group_id, topic, partition) is not None or table.is_pending(
        group_id, topic, partition
    ):
        tombstone(out, group_id, topic, partition)

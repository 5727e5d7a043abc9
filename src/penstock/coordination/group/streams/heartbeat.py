"""StreamsGroupHeartbeat: a member says that it lives, what it computes, and which tasks it has.

Most heartbeats say nothing new, and get an answer from memory. Others change the group, or what the
member has, step by step until it has what the target gives it. The answer may come with topics
that the application needs: who has the member's rights at hand has them made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.classic.creating import GROUPS_MAX
from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.consumer.refusal import Refusal, fenced_epoch, unknown_member
from penstock.coordination.group.streams.answering import answer
from penstock.coordination.group.streams.changing import Change, carry_out
from penstock.coordination.group.streams.group import StreamsGroup
from penstock.coordination.group.streams.leaving import group_not_found, leave
from penstock.coordination.group.streams.member import JOINING, Endpoint, Member
from penstock.coordination.group.streams.sessions import begin_session, renew_session
from penstock.coordination.group.streams.tasks import Assignment, is_within, tasks_of
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.streams_group_heartbeat import StreamsGroupHeartbeatResponse

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.consumer.heartbeat import Client
    from penstock.coordination.group.shard import GroupShard
    from penstock.protocol.generated.create_topics import CreatableTopic
    from penstock.protocol.generated.streams_group_heartbeat import StreamsGroupHeartbeatRequest

UNSAID = -1
"""A rebalance timeout that is as it was."""

NO_TOPICS: Mapping[str, CreatableTopic] = {}


class Result(NamedTuple):
    """An answer, and internal topics of the application that should be made."""

    response: StreamsGroupHeartbeatResponse
    missing: Mapping[str, CreatableTopic] = NO_TOPICS


def heartbeat(
    shard: GroupShard,
    at: Moment,
    out: Effects,
    ticket: Ticket,
    request: StreamsGroupHeartbeatRequest,
    client: Client,
) -> None:
    """Answer a heartbeat that `checks` found nothing wrong with, with a Result."""
    if request.member_epoch < JOINING:
        left = leave(shard, request, out)
        result: Result | Refusal = left if isinstance(left, Refusal) else Result(left)
    else:
        result = _join_or_go_on(shard, request, client, at, out)
    if isinstance(result, Refusal):
        out.drop()
        result = refused(result)
    out.replies.append((ticket, result))  # not only a message: the handler takes it apart


def refused(refusal: Refusal) -> Result:
    """The answer to a heartbeat that is not granted."""
    return failed(refusal.error, refusal.message)


def failed(error: ErrorCode, message: str | None = None) -> Result:
    """The answer to a heartbeat that came to nothing."""
    return Result(StreamsGroupHeartbeatResponse(error_code=error, error_message=message, status=[]))


def _join_or_go_on(
    shard: GroupShard,
    request: StreamsGroupHeartbeatRequest,
    client: Client,
    at: Moment,
    out: Effects,
) -> Result | Refusal:
    joins = request.member_epoch == JOINING
    group = _group_for(shard, request.group_id, joins, out)
    if isinstance(group, Refusal):
        return group
    size_max = shard.streams.settings.size_max
    if joins and len(group.members) >= size_max and request.member_id not in group.members:
        return Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The streams group has reached its maximum capacity of {size_max} members.",
        )
    owned = _owned(request)
    member = _member_for(group, request, owned)
    if isinstance(member, Refusal):
        return member
    updated = _updated(member, request, client)
    change = carry_out(shard, group, Change(member, updated, owned, request.topology), at, out)
    if isinstance(change, Refusal):
        return change
    pace = shard.streams.pace(group.group_id)
    if joins:
        begin_session(group, member.member_id, pace.session_ms, at, out)
    else:
        renew_session(group, member.member_id, pace.session_ms, at)
    if request.shutdown_application and group.shutdown_by is None:
        group.shutdown_by = member.member_id
    return Result(answer(shard, group, request, member, owned, change), change.configured.missing)


def _group_for(
    shard: GroupShard, group_id: str, joins: bool, out: Effects
) -> StreamsGroup | Refusal:
    """The streams group of this name. Who joins may make it, also in place of an empty classic one.

    One that is made is in the shard once this step's records are replayed.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, StreamsGroup):
        return group
    if group is None and joins:
        if len(shard.groups) >= GROUPS_MAX:
            return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "There are too many groups.")
        return StreamsGroup(group_id)
    if joins and isinstance(group, ClassicGroup) and group.is_empty:
        group.delete(out)
        return StreamsGroup(group_id)
    return group_not_found(group, group_id)


def _owned(request: StreamsGroupHeartbeatRequest) -> Assignment | None:
    if request.active_tasks is None:
        return None
    return Assignment(
        tasks_of(request.active_tasks),
        tasks_of(request.standby_tasks or ()),
        tasks_of(request.warmup_tasks or ()),
    )


def _member_for(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, owned: Assignment | None
) -> Member | Refusal:
    """The member that a heartbeat is from, made if it joins.

    It may be one answer behind: it lost the last one. Then it has nothing that is new.
    """
    member, epoch = group.members.get(request.member_id), request.member_epoch
    if member is None:
        if epoch == JOINING:
            return Member(request.member_id)
        return unknown_member(request.member_id, group.group_id)
    if epoch in (JOINING, member.epoch):
        return member
    if epoch > member.epoch:
        return fenced_epoch("greater", epoch, member.epoch)
    if epoch == member.previous_epoch and owned is not None and is_within(owned, member.assigned):
        return member
    return fenced_epoch("smaller", epoch, member.epoch)


def _updated(member: Member, request: StreamsGroupHeartbeatRequest, client: Client) -> Member:
    """The member with what the request says; what it does not mention is as it was."""
    timeout_ms, topology = request.rebalance_timeout_ms, request.topology
    endpoint, tags = request.user_endpoint, request.client_tags
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == UNSAID else timeout_ms,
        topology_epoch=member.topology_epoch if topology is None else topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=member.endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        tags=member.tags if tags is None else {it.key: it.value for it in tags},
        client_id=client.client_id,
        client_host=client.host,
    )

"""ShareGroupHeartbeat: a member says that it lives and what it wants, and hears what it has.

Most heartbeats say nothing new, and get an answer from memory. Nothing has to be let go before
others get it: a member moves to its target at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.creating import GROUPS_MAX
from penstock.coordination.group.consumer.hashing import group_hash
from penstock.coordination.group.consumer.heartbeat import Client
from penstock.coordination.group.consumer.refusal import Refusal, unknown_member
from penstock.coordination.group.share.group import ShareGroup
from penstock.coordination.group.share.initializing import ask_for_missing
from penstock.coordination.group.share.leaving import leave, not_a_share_group
from penstock.coordination.group.share.member import JOINING, Member
from penstock.coordination.group.share.records import write_current, write_epoch, write_member
from penstock.coordination.group.share.sessions import begin_session, renew_session
from penstock.coordination.group.share.target import Target, next_target
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.protocol.generated.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.shard import GroupShard
    from penstock.protocol.generated.share_group_heartbeat import ShareGroupHeartbeatRequest

EAGER_MS = 200
"""A member that will get more in a moment is asked to come back so soon, and not in seconds."""

EAGER_MS_MAX = 5_000
"""What is not there after this is waited for at the group's own pace."""


def heartbeat(
    shard: GroupShard,
    at: Moment,
    out: Effects,
    ticket: Ticket,
    request: ShareGroupHeartbeatRequest,
    client: Client,
) -> None:
    """Answer a heartbeat that `checks` found nothing wrong with."""
    group = shard.groups.get(request.group_id)
    if type(group) is ShareGroup and request.member_epoch > 0:
        member = group.members.get(request.member_id)
        if member is not None and _says_nothing_new(group, member, request, client):
            pace = shard.shares.pace(group.group_id, shard.consumers.image)
            renew_session(group, member.member_id, pace.session_ms, at)
            out.reply(ticket, _answer(member, pace.heartbeat_ms))
            return
    if request.member_epoch < JOINING:
        response = leave(shard, request, out)
    else:
        response = _join_or_go_on(shard, request, client, at, out)
    if isinstance(response, Refusal):
        out.drop()
        response = refused(response)
    out.reply(ticket, response)


def refused(refusal: Refusal) -> ShareGroupHeartbeatResponse:
    """The answer to a heartbeat that is not granted."""
    return ShareGroupHeartbeatResponse(error_code=refusal.error, error_message=refusal.message)


def _says_nothing_new(
    group: ShareGroup, member: Member, request: ShareGroupHeartbeatRequest, client: Client
) -> bool:
    return (
        request.member_epoch == member.epoch == group.target_epoch == group.epoch
        and request.subscribed_topic_names is None
        and request.rack_id is None
        and not group.must_look
        and not group.must_check_topics
        and client.client_id == member.client_id
        and client.host == member.client_host
    )


def _join_or_go_on(
    shard: GroupShard,
    request: ShareGroupHeartbeatRequest,
    client: Client,
    at: Moment,
    out: Effects,
) -> ShareGroupHeartbeatResponse | Refusal:
    joins = request.member_epoch == JOINING
    group = _group_for(shard, request.group_id, joins)
    if isinstance(group, Refusal):
        return group
    old = _find_member(shard, group, request)
    if isinstance(old, Refusal):
        return old
    said = _updated(old, request, client)
    new, waits = _carry_out(shard, group, old, said, at, out)
    pace = shard.shares.pace(group.group_id, shard.consumers.image)
    if joins:
        begin_session(group, new.member_id, pace.session_ms, at, out)
    else:
        renew_session(group, new.member_id, pace.session_ms, at)
    response = _answer(new, _interval(group, waits, pace.heartbeat_ms, at))
    if joins or request.subscribed_topic_names is not None or new.assigned != old.assigned:
        response.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
                for topic_id, numbers in new.assigned.items()
            ]
        )
    return response


def _group_for(shard: GroupShard, group_id: str, joins: bool) -> ShareGroup | Refusal:
    """The share group of this name; who joins may make it."""
    group = shard.groups.get(group_id)
    if isinstance(group, ShareGroup):
        return group
    if group is not None or not joins:
        return not_a_share_group(group, group_id)
    if len(shard.groups) >= GROUPS_MAX:
        return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "There are too many groups.")
    return ShareGroup(group_id)


def _find_member(
    shard: GroupShard, group: ShareGroup, request: ShareGroupHeartbeatRequest
) -> Member | Refusal:
    """The member that a heartbeat is from, made if it joins."""
    member = group.members.get(request.member_id)
    size_max = shard.settings.share.size_max
    if member is None and len(group.members) >= size_max:
        return Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {size_max} members.",
        )
    epoch = request.member_epoch
    if member is None:
        if epoch != JOINING:
            return unknown_member(request.member_id, group.group_id)
        return Member(request.member_id)
    # A member may be one answer behind: it lost the last one.
    if epoch in (JOINING, member.epoch, member.previous_epoch):
        return member
    how = "greater" if epoch > member.epoch else "smaller"
    return Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {how} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _updated(member: Member, request: ShareGroupHeartbeatRequest, client: Client) -> Member:
    """The member with what the request says; what it does not mention is as it was."""
    names = request.subscribed_topic_names
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topics=member.topics if names is None else frozenset(names),
        client_id=client.client_id,
        client_host=client.host,
    )


def _carry_out(
    shard: GroupShard, group: ShareGroup, old: Member, said: Member, at: Moment, out: Effects
) -> tuple[Member, bool]:
    """Write down what changes: what becomes of the member, and whether more is to come soon."""
    around = shard.consumers
    if said != old:
        write_member(out, group.group_id, said)
    is_behind = group.epoch > group.target_epoch
    lacks = not is_behind and group.lacks_partitions(around.topic_ids(frozenset(group.names)))
    bumps = said.topics != old.topics or lacks
    names, epoch = group.names, group.epoch
    if bumps or group.must_check_topics:
        names = group.names_after(group.members.get(said.member_id), said)
        metadata_hash = group_hash(names, around.image, around.hashes)
        bumps = bumps or metadata_hash != group.metadata_hash
        if bumps:
            epoch += 1
            write_epoch(out, group.group_id, epoch, metadata_hash)
        group.checked_at_epoch = epoch
    target = next_target(shard, group, epoch, said, at, out)
    new = _moved(shard, said, target, bumps)
    if new != said:
        write_current(out, group.group_id, new)
    is_missing = ask_for_missing(shard, group, names, epoch, at, out)
    # What was begun for topics that nobody wants any more keeps nobody waiting.
    is_begun = not around.topic_ids(frozenset(names)).isdisjoint(group.readiness.initializing)
    waits = is_missing or is_begun or target.epoch < epoch
    if bumps:
        group.eager_until = None
    if not waits and not out.records:
        group.must_look = False
    return new, waits


def _moved(shard: GroupShard, member: Member, target: Target, bumps: bool) -> Member:
    """The member with what its target gives it, of topics that it wants."""
    if member.epoch == target.epoch and not bumps:
        return member
    topics = shard.consumers.topic_ids(member.topics)
    assigned = {it: numbers for it, numbers in target.partitions.items() if it in topics}
    if member.epoch == target.epoch:
        return member._replace(assigned=assigned)
    return member._replace(epoch=target.epoch, previous_epoch=member.epoch, assigned=assigned)


def _interval(group: ShareGroup, waits: bool, heartbeat_ms: int, at: Moment) -> int:
    """When the member should come again: soon, for a while, if there is more for it then."""
    if not waits:
        return heartbeat_ms
    if group.eager_until is None:
        group.eager_until = Millis(at.mono + EAGER_MS_MAX)
    return min(EAGER_MS, heartbeat_ms) if at.mono < group.eager_until else heartbeat_ms


def _answer(member: Member, heartbeat_ms: int) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        member_id=member.member_id, member_epoch=member.epoch, heartbeat_interval_ms=heartbeat_ms
    )

"""Members of a consumer group that still speak the classic protocol.

They join, sync and send heartbeats as ever; what they get comes from the coordinator's target. A
generation is the member's own epoch, and a rebalance is what it takes to catch up with the group.
Nobody leads, nobody waits for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.group import CONSUMER
from penstock.coordination.group.classic.replies import join_refused, sync_refused
from penstock.coordination.group.consumer.changing import (
    Change,
    carry_out,
    change_wishes,
    move_towards,
)
from penstock.coordination.group.consumer.leaving import fence
from penstock.coordination.group.consumer.member import Member, State
from penstock.coordination.group.consumer.membership import join_static
from penstock.coordination.group.consumer.refusal import Refusal
from penstock.coordination.group.consumer.sessions import (
    CLASSIC_JOIN,
    CLASSIC_SYNC,
    begin_session,
    expect,
    expect_no_more,
    renew_session,
)
from penstock.coordination.group.consumer.target import Target
from penstock.coordination.group.migration.downgrading import downgrade, may_downgrade
from penstock.coordination.group.migration.embedded import (
    by_id,
    read_subscription,
    version_of,
    write_assignment,
)
from penstock.coordination.group.migration.upgrading import classic_metadata
from penstock.model.errors import ErrorCode
from penstock.model.ids import uuid_text
from penstock.protocol.generated.join_group import JoinGroupResponse
from penstock.protocol.generated.sync_group import SyncGroupResponse
from penstock.protocol.primitives import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.classic.joining import Join
    from penstock.coordination.group.classic.leaving import Leaver
    from penstock.coordination.group.classic.syncing import Sync
    from penstock.coordination.group.consumer.group import ConsumerGroup
    from penstock.coordination.group.shard import GroupShard
    from penstock.protocol.generated.consumer_protocol import ConsumerProtocolSubscription


# -- joining ------------------------------------------------------------------------------------


def join(
    shard: GroupShard,
    group: ConsumerGroup,
    at: Moment,
    out: Effects,
    ticket: Ticket,
    asked: Join,
) -> None:
    """Let a member in, or let it catch up: the answer comes at once."""
    response = _join(shard, group, at, out, asked)
    if isinstance(response, ErrorCode):
        out.drop()
        response = join_refused(response, asked.member_id)
    out.reply(ticket, response)


def _join(
    shard: GroupShard, group: ConsumerGroup, at: Moment, out: Effects, asked: Join
) -> JoinGroupResponse | ErrorCode:
    member_id = asked.member_id or uuid_text(shard.chance.uuid())
    size_max = shard.settings.consumer_size_max
    if len(group.members) >= size_max and member_id not in group.members:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not _supports(group, asked):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not asked.member_id and asked.instance_id is None and asked.id_first:
        return join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    try:
        subscription = read_subscription(asked.protocols[0][1])
    except ProtocolError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    old = _joining_member(group, member_id, asked, out)
    if isinstance(old, Refusal):
        return old.error
    owned = by_id(
        ((it.topic, it.partitions) for it in subscription.owned_partitions),
        shard.consumers.image.topics,
    )
    change = Change(old, _updated(old, asked, subscription), owned, asked.sees)
    new = _catch_up(shard, group, change, at, out)
    if isinstance(new, Refusal):
        return new.error
    return JoinGroupResponse(
        member_id=new.member_id,
        generation_id=new.epoch,
        protocol_type=CONSUMER,
        protocol_name=asked.protocols[0][0],
    )


def _supports(group: ConsumerGroup, asked: Join) -> bool:
    """Whether all who speak the classic protocol have a way of assigning in common with it."""
    if asked.protocol_type != CONSUMER or not asked.protocols:
        return False
    names = {name for name, _ in asked.protocols}
    for member in group.members.values():
        if member.classic is not None:
            names &= {it.name for it in member.classic.supported_protocols}
    return bool(names)


def _joining_member(
    group: ConsumerGroup, member_id: str, asked: Join, out: Effects
) -> Member | Refusal:
    if asked.instance_id is None:
        return group.members.get(member_id) or Member(member_id)
    if not asked.member_id:
        return join_static(group, member_id, asked.instance_id, out, is_classic=True)
    return _known(group, member_id, asked.instance_id)


def _known(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member | Refusal:
    """The member that a request is from."""
    if instance_id is None:
        member = group.members.get(member_id)
    else:
        member = group.static_member(instance_id)
        if member is not None and member.member_id != member_id:
            return Refusal(ErrorCode.FENCED_INSTANCE_ID, "another member has this instance id")
    return member or Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "there is no such member")


def _updated(old: Member, asked: Join, subscription: ConsumerProtocolSubscription) -> Member:
    return old._replace(
        instance_id=asked.instance_id or old.instance_id,
        rack_id=subscription.rack_id or old.rack_id,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",
        client_id=asked.client_id,
        client_host=asked.client_host,
        classic=classic_metadata(asked.session_timeout_ms, asked.protocols),
    )


def _catch_up(
    shard: GroupShard, group: ConsumerGroup, change: Change, at: Moment, out: Effects
) -> Member | Refusal:
    """Move on with the group, or have it become a classic one if this was the last other member."""
    former = group.static_member(change.new.instance_id)
    others = [it for it in group.members.values() if it is not former]
    is_last = former is not None and former.classic is None
    if is_last and may_downgrade(shard, [*others, change.new]):
        assert former is not None
        return _downgrade(shard, group, change, former, at, out)
    new = carry_out(shard, group, change, at, out)
    if not isinstance(new, Refusal):
        assert new.classic is not None
        group.rejoining.discard(new.member_id)
        expect_no_more(CLASSIC_JOIN, group, new.member_id, out)
        begin_session(group, new.member_id, new.classic.session_timeout_ms, at, out)
        expect(CLASSIC_SYNC, group, new.member_id, new.rebalance_timeout_ms, at, out)
    return new


def _downgrade(
    shard: GroupShard,
    group: ConsumerGroup,
    change: Change,
    former: Member,
    at: Moment,
    out: Effects,
) -> Member | Refusal:
    """A static member came back with the classic protocol, and all others speak it already."""
    wishes = change_wishes(shard, group, change, at, out)
    if isinstance(wishes, Refusal):
        return wishes
    is_behind = group.target_epoch < wishes.epoch
    new: Member | Refusal = change.new
    if not is_behind:
        target = Target(group.target_epoch, group.target.get(former.member_id, {}))
        new = move_towards(shard, group, change, wishes, target, at, out)
        if isinstance(new, Refusal):
            return new
    assert isinstance(new, Member)
    others = {it.member_id: it for it in group.members.values() if it is not former}
    forgotten = [*others, new.member_id]
    downgrade(shard, group, {**others, former.member_id: new}, forgotten, is_behind, at, out)
    return new


# -- syncing, heartbeats, leaving ---------------------------------------------------------------


def sync(
    shard: GroupShard,
    group: ConsumerGroup,
    at: Moment,
    out: Effects,
    ticket: Ticket,
    asked: Sync,
) -> None:
    """What the member holds at its epoch."""
    member = _speaker(group, asked.member_id, asked.instance_id, asked.generation)
    if isinstance(member, ErrorCode):
        out.reply(ticket, sync_refused(member))
        return
    assert member.classic is not None
    first = member.classic.supported_protocols[0]
    if asked.protocol_type not in (None, CONSUMER) or asked.protocol_name not in (None, first.name):
        out.reply(ticket, sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    elif group.target_epoch > member.epoch and member.state is not State.UNREVOKED_PARTITIONS:
        _ask_to_rejoin(group, member, at, out)
        out.reply(ticket, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
    else:
        expect_no_more(CLASSIC_SYNC, group, member.member_id, out)
        renew_session(group, member.member_id, member.classic.session_timeout_ms, at.mono)
        topics = shard.consumers.image.topics
        assignment = write_assignment(member.assigned, topics, version_of(bytes(first.metadata)))
        response = SyncGroupResponse(
            protocol_type=asked.protocol_type,
            protocol_name=asked.protocol_name,
            assignment=assignment,
        )
        out.reply(ticket, response)


def heartbeat(
    group: ConsumerGroup,
    at: Moment,
    out: Effects,
    member_id: str,
    instance_id: str | None,
    generation: int,
) -> ErrorCode:
    """Whether the member has to join again."""
    member = _speaker(group, member_id, instance_id, generation)
    if isinstance(member, ErrorCode):
        return member
    assert member.classic is not None
    renew_session(group, member_id, member.classic.session_timeout_ms, at.mono)
    if not _can_move_on(group, member):
        return ErrorCode.NONE
    _ask_to_rejoin(group, member, at, out)
    return ErrorCode.REBALANCE_IN_PROGRESS


def leave(
    shard: GroupShard, group: ConsumerGroup, at: Moment, out: Effects, leavers: Sequence[Leaver]
) -> list[ErrorCode]:
    """Let go who is there, whichever protocol they speak, and answer for each whether it was."""
    errors: list[ErrorCode] = []
    found: dict[str, Member] = {}
    for member_id, instance_id in leavers:
        if not member_id and instance_id is not None:
            member = group.static_member(instance_id) or Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "")
        else:
            member = _known(group, member_id, instance_id)
        if isinstance(member, Refusal):
            errors.append(member.error)
        else:
            errors.append(ErrorCode.NONE)
            found[member.member_id] = member
    fence(shard, group, list(found.values()), at, out)
    return errors


def _speaker(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> Member | ErrorCode:
    """The member that a request is from, if it may speak like that."""
    member = _known(group, member_id, instance_id)
    if isinstance(member, Refusal):
        return member.error
    if member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return member if generation == member.epoch else ErrorCode.ILLEGAL_GENERATION


def _can_move_on(group: ConsumerGroup, member: Member) -> bool:
    if member.epoch < group.target_epoch or member.state is State.UNREVOKED_PARTITIONS:
        return True
    if member.state is not State.UNRELEASED_PARTITIONS:
        return False
    # Joining again helps only once somebody has let go of something.
    return not any(
        number not in member.assigned.get(topic_id, {}) and group.is_held(topic_id, number)
        for topic_id, numbers in group.target.get(member.member_id, {}).items()
        for number in numbers
    )


def _ask_to_rejoin(group: ConsumerGroup, member: Member, at: Moment, out: Effects) -> None:
    if member.member_id not in group.rejoining:
        group.rejoining.add(member.member_id)
        expect(CLASSIC_JOIN, group, member.member_id, member.rebalance_timeout_ms, at, out)

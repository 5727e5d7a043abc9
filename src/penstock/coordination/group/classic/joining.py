"""JoinGroup: a member comes, or comes again, and waits for the generation that it is part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.classic.creating import GROUPS_MAX, new_group
from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.member import Member, Protocols
from penstock.coordination.group.classic.rebalancing import dismiss, go_on, rebalance
from penstock.coordination.group.classic.records import new_group_value, write
from penstock.coordination.group.classic.replies import join_refused, joined, wait_for_join
from penstock.coordination.group.classic.sessions import NEW_MEMBER_MS_MAX, expect, keep_alive
from penstock.coordination.group.classic.states import State
from penstock.coordination.group.classic.static import rejoin_static
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.migration.downgrading import replace_empty
from penstock.coordination.group.migration.speaking import join as join_consumers
from penstock.coordination.group.streams.group import StreamsGroup
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.shard import GroupShard
    from penstock.platform.chance import Chance

PENDING_MAX = 10_000
"""Ids of one group that may be given out and not be used yet."""

MEMBER_ID_BYTES_MAX = 32_767
"""What a string on the wire and in the log can hold."""


class Join(NamedTuple):
    """A request to join, in whatever version it came."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    id_first: bool
    """From version 4: a new member is given its id and has to come back with it."""
    can_skip: bool
    """From version 9: a leader can be told not to assign."""
    sees: Callable[[str], bool] | None = None
    """Which topics the member may know of; None: all."""


def join(shard: GroupShard, at: Moment, out: Effects, ticket: Ticket, asked: Join) -> None:
    """Find the group or make it, and let the member in if there is place."""
    group = shard.groups.get(asked.group_id)
    if group is None:
        _join_unknown(shard, at, out, ticket, asked)
    elif isinstance(group, ClassicGroup):
        join_group(shard, group, at, out, ticket, asked)
    elif isinstance(group, ConsumerGroup) and group.members:
        join_consumers(shard, group, at, out, ticket, asked)
    elif not isinstance(group, ConsumerGroup | StreamsGroup) or group.members:
        out.reply(ticket, join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    elif asked.member_id:
        out.reply(ticket, join_refused(ErrorCode.UNKNOWN_MEMBER_ID, asked.member_id))
    else:
        replace_empty(shard, group, out, lambda: _join_unknown(shard, at, out, ticket, asked))


def _join_unknown(shard: GroupShard, at: Moment, out: Effects, ticket: Ticket, asked: Join) -> None:
    if asked.member_id:
        out.reply(ticket, join_refused(ErrorCode.UNKNOWN_MEMBER_ID, asked.member_id))
        return
    if len(shard.groups) >= GROUPS_MAX:
        out.reply(ticket, join_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    group = new_group(shard, asked.group_id, at.wall)
    join_group(shard, group, at, out, ticket, asked)
    if not group.members and not group.pending:
        del shard.groups[asked.group_id]  # a request that was refused leaves no group behind
        return

    def never_was(error: ErrorCode, amends: Effects) -> None:
        del shard.groups[asked.group_id]
        if group.joins:
            amends.reply(ticket, join_refused(error))

    write(group, new_group_value(group), out, never_was)


def join_group(
    shard: GroupShard,
    group: ClassicGroup,
    at: Moment,
    out: Effects,
    ticket: Ticket,
    asked: Join,
) -> None:
    """Join a group that exists."""
    if not _has_place(group, asked.member_id, shard.settings.size_max):
        dismiss(group, asked.member_id, out)
        out.reply(ticket, join_refused(ErrorCode.GROUP_MAX_SIZE_REACHED))
        go_on(group, at, out)
    elif not group.supports(asked.protocol_type, asked.protocols):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        out.reply(ticket, join_refused(error, asked.member_id))
    elif not asked.member_id:
        _join_first(shard, group, at, out, ticket, asked)
    elif asked.member_id in group.pending:
        if asked.instance_id is not None:  # static members are never given an id first
            out.reply(ticket, join_refused(ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            let_in(shard, group, asked.member_id, at, out, ticket, asked)
    else:
        _join_again(shard, group, at, out, ticket, asked)


def _has_place(group: ClassicGroup, member_id: str, size_max: int) -> bool:
    if group.state is State.PREPARING:
        # Counting those who have come, and not all members, turns away the last to come when a
        # group is over its bound.
        return member_id in group.joins or len(group.joins) < size_max
    if group.state is State.EMPTY:
        return True
    return member_id in group.members or len(group.members) < size_max


def _join_first(
    shard: GroupShard,
    group: ClassicGroup,
    at: Moment,
    out: Effects,
    ticket: Ticket,
    asked: Join,
) -> None:
    """Somebody who has no id yet."""
    member_id = new_member_id(asked.instance_id or asked.client_id, shard.chance)
    if len(member_id.encode()) > MEMBER_ID_BYTES_MAX:
        out.reply(ticket, join_refused(ErrorCode.INVALID_REQUEST))
    elif asked.instance_id is not None:
        old_id = group.static_ids.get(asked.instance_id)
        if old_id is None:
            let_in(shard, group, member_id, at, out, ticket, asked)
        else:
            old = group.members[old_id]
            rejoin_static(shard, group, old, member_id, at, out, ticket, asked)
    elif not asked.id_first:
        let_in(shard, group, member_id, at, out, ticket, asked)
    elif len(group.pending) >= PENDING_MAX:
        out.reply(ticket, join_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    else:
        # A client that gives up and tries again would otherwise leave a member behind each time.
        expect(group, member_id, asked.session_timeout_ms, at, out)
        out.reply(ticket, join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id))


def new_member_id(prefix: str, chance: Chance) -> str:
    """The client's or the instance's name and something that nobody can guess."""
    digits = chance.uuid().hex()
    parts = digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]
    return f"{prefix}-{'-'.join(parts)}"


def let_in(
    shard: GroupShard,
    group: ClassicGroup,
    member_id: str,
    at: Moment,
    out: Effects,
    ticket: Ticket,
    asked: Join,
) -> None:
    """A new member, for whom the others have to make room."""
    member = Member(
        member_id,
        asked.instance_id,
        asked.client_id,
        asked.client_host,
        asked.rebalance_timeout_ms,
        asked.session_timeout_ms,
        asked.protocols,
    )
    member.is_new = True
    if not group.members:
        group.protocol_type = asked.protocol_type
    group.add(member)
    group.joins[member_id] = ticket
    group.newcomers = True
    keep_alive(group, member, at, out, NEW_MEMBER_MS_MAX)
    rebalance(shard, group, at, out)


def _join_again(
    shard: GroupShard,
    group: ClassicGroup,
    at: Moment,
    out: Effects,
    ticket: Ticket,
    asked: Join,
) -> None:
    """A member that is known: it was asked to join again, or has something new to say."""
    member_id = asked.member_id
    error = group.check_member(member_id, asked.instance_id)
    if error or group.state is State.EMPTY:
        error = error or ErrorCode.UNKNOWN_MEMBER_ID
        out.reply(ticket, join_refused(error, member_id))
        return
    member = group.members[member_id]
    if member.protocols == asked.protocols and _is_current(group, member_id):
        out.reply(ticket, joined(group, member_id))
        return
    group.update(member, asked.protocols)
    member.rebalance_timeout_ms = asked.rebalance_timeout_ms
    member.session_timeout_ms = asked.session_timeout_ms
    wait_for_join(group, member_id, ticket, out)
    rebalance(shard, group, at, out)


def _is_current(group: ClassicGroup, member_id: str) -> bool:
    """Whether a member that says nothing new has its place in the generation that there is."""
    if group.state is State.STABLE:
        # A leader may know more than its metadata tells, such as a topic's new partitions.
        return member_id != group.leader_id
    return group.state is State.COMPLETING  # it may not have got its first answer

"""Static members: who comes back under its instance id takes its old place, its old self is out.

In a stable group it comes back to the same work, and the others notice nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.rebalancing import go_on, prepare, rebalance
from penstock.coordination.group.classic.records import group_value, write
from penstock.coordination.group.classic.replies import joined, release, wait_for_join
from penstock.coordination.group.classic.sessions import forget, keep_alive
from penstock.coordination.group.classic.states import State
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.classic.group import ClassicGroup
    from penstock.coordination.group.classic.joining import Join
    from penstock.coordination.group.classic.member import Member
    from penstock.coordination.group.shard import GroupShard


def rejoin_static(
    shard: GroupShard,
    group: ClassicGroup,
    old: Member,
    member_id: str,
    at: Moment,
    out: Effects,
    ticket: Ticket,
    asked: Join,
) -> None:
    """A known instance comes without its id: it was restarted, or there are two of it."""
    leader_before = group.leader_id
    new = _succeed(group, old, member_id, at, out, asked)
    if group.state is State.STABLE and group.choose_protocol() == group.protocol_name:

        def put_back(error: ErrorCode, amends: Effects) -> None:  # noqa: ARG001
            _put_back(group, old, new, at, amends)

        assignments = {it.member_id: it.assignment for it in group.members.values()}
        write(group, group_value(group, assignments), out, put_back)
        _tell_its_place(group, member_id, leader_before, out, ticket, asked)
        return
    wait_for_join(group, member_id, ticket, out)
    if group.state is State.COMPLETING:
        # The leader has been told of the old id and would assign to nobody.
        prepare(shard, group, at, out)
    elif group.state is State.STABLE:
        rebalance(shard, group, at, out)
    else:
        go_on(group, at, out)


def _succeed(
    group: ClassicGroup, old: Member, member_id: str, at: Moment, out: Effects, asked: Join
) -> Member:
    release(group, old.member_id, ErrorCode.FENCED_INSTANCE_ID, out)
    forget(group, old.member_id, out)
    new = old.successor(member_id)
    new.protocols = asked.protocols
    new.rebalance_timeout_ms = asked.rebalance_timeout_ms
    new.session_timeout_ms = asked.session_timeout_ms
    group.replace(old, new)
    keep_alive(group, new, at, out)
    return new


def _put_back(group: ClassicGroup, old: Member, new: Member, at: Moment, amends: Effects) -> None:
    """The log does not know of the new id: the old one stays."""
    group.replace(new, old)
    forget(group, new.member_id, amends)
    old.armed = None
    keep_alive(group, old, at, amends)


def _tell_its_place(
    group: ClassicGroup,
    member_id: str,
    leader_before: str | None,
    out: Effects,
    ticket: Ticket,
    asked: Join,
) -> None:
    is_leader = group.leader_id == member_id
    response = joined(group, member_id, skip_assignment=asked.can_skip and is_leader)
    if not asked.can_skip:
        # An older client that learns that it leads would assign, and nobody waits for that: it is
        # told that its former self leads.
        response.leader = leader_before or ""
        response.members = []
    out.reply(ticket, response)

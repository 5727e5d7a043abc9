"""How long a silent member is taken to be alive.

A heartbeat moves a deadline in memory and leaves the timer alone. The timer, when it comes, looks
at the deadline and is set anew: a group that is fine costs one timer per member and session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.ids import Millis

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.classic.group import ClassicGroup
    from penstock.coordination.group.classic.member import Member

SESSION = "classic-session"

NEW_MEMBER_MS_MAX = 300_000
"""How long a first join may wait. Its client has no id yet and may have gone unnoticed."""


def session_key(group_id: str, member_id: str) -> tuple[str, str, str]:
    """The timer of a member, or of an id that was given out."""
    return SESSION, group_id, member_id


def keep_alive(
    group: ClassicGroup, member: Member, at: Moment, out: Effects, span_ms: int | None = None
) -> None:
    """The member was heard of: its session, or `span_ms`, begins now."""
    deadline = Millis(at.mono + (member.session_timeout_ms if span_ms is None else span_ms))
    member.deadline = deadline
    if member.armed is None or deadline < member.armed:
        member.armed = deadline
        out.timer(session_key(group.group_id, member.member_id), deadline)


def is_kept_alive(member: Member, now: Millis) -> bool:
    """The same where no timer has to be set for it; False where one has, and nothing is done."""
    deadline = Millis(now + member.session_timeout_ms)
    if member.armed is None or deadline < member.armed:
        return False
    member.deadline = deadline
    return True


def expect(group: ClassicGroup, member_id: str, span_ms: int, at: Moment, out: Effects) -> None:
    """An id was given out: whoever got it has this long to come back with it."""
    group.pending.add(member_id)
    out.timer(session_key(group.group_id, member_id), Millis(at.mono + span_ms))


def forget(group: ClassicGroup, member_id: str, out: Effects) -> None:
    """The member is gone: nobody need look after it."""
    out.cancel(session_key(group.group_id, member_id))

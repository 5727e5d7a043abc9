"""How long a silent member is taken to be alive.

A heartbeat moves a deadline in memory and leaves the timer alone; the timer, when it comes, looks
at the deadline and is set anew. So a member that is fine costs one timer per session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.ids import Millis

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.streams.group import StreamsGroup

SESSION = "streams-session"
REBALANCE = "streams-rebalance"
"""Names of timers: a member is silent; a member does not let go."""
BEGIN = "streams-begin"
"""A new group has waited long enough for more members."""


def begin_session(
    group: StreamsGroup, member_id: str, span_ms: int, at: Moment, out: Effects
) -> None:
    """The member joined: its session begins, and somebody looks after it."""
    group.deadlines.pop(member_id, None)
    out.timer((SESSION, group.group_id, member_id), Millis(at.mono + span_ms))


def renew_session(group: StreamsGroup, member_id: str, span_ms: int, at: Moment) -> None:
    """The member was heard of."""
    group.deadlines[member_id] = Millis(at.mono + span_ms)


def end_session(group: StreamsGroup, member_id: str, out: Effects) -> None:
    """The member is gone: nothing is expected of it."""
    out.cancel((SESSION, group.group_id, member_id))
    out.cancel((REBALANCE, group.group_id, member_id))


def expect_release(
    group: StreamsGroup, member_id: str, span_ms: int, at: Moment, out: Effects
) -> None:
    """The member has this long to let go of what it must."""
    out.timer((REBALANCE, group.group_id, member_id), Millis(at.mono + span_ms))


def expect_no_release(group: StreamsGroup, member_id: str, out: Effects) -> None:
    """The member has let go, or need not."""
    out.cancel((REBALANCE, group.group_id, member_id))

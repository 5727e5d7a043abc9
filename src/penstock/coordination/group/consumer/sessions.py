"""How long a silent member is taken to be alive.

A heartbeat moves a deadline in memory and leaves the timer alone; the timer, when it comes, looks
at the deadline and is set anew. So a member that is fine costs one timer per session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.ids import Millis

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.consumer.group import ConsumerGroup

SESSION = "consumer-session"
REBALANCE = "consumer-rebalance"
"""Names of timers: a member is silent; a member does not let go."""
CLASSIC_JOIN = "consumer-join"
CLASSIC_SYNC = "consumer-sync"
"""A member that speaks the classic protocol does not join again, or does not sync."""

TimerKey = tuple[str, str, str]


def timer_key(name: str, group_id: str, member_id: str) -> TimerKey:
    """A member's timer."""
    return name, group_id, member_id


def begin_session(
    group: ConsumerGroup, member_id: str, span_ms: int, at: Moment, out: Effects
) -> None:
    """The member joined: its session begins, and somebody looks after it."""
    group.deadlines.pop(member_id, None)
    out.timer(timer_key(SESSION, group.group_id, member_id), Millis(at.mono + span_ms))


def renew_session(group: ConsumerGroup, member_id: str, span_ms: int, now: Millis) -> None:
    """The member was heard of."""
    group.deadlines[member_id] = Millis(now + span_ms)


def end_session(group: ConsumerGroup, member_id: str, out: Effects) -> None:
    """The member is gone: nothing is expected of it."""
    for name in (SESSION, REBALANCE, CLASSIC_JOIN, CLASSIC_SYNC):
        out.cancel(timer_key(name, group.group_id, member_id))


def expect(
    name: str, group: ConsumerGroup, member_id: str, span_ms: int, at: Moment, out: Effects
) -> None:
    """The member has this long to do something."""
    out.timer(timer_key(name, group.group_id, member_id), Millis(at.mono + span_ms))


def expect_no_more(name: str, group: ConsumerGroup, member_id: str, out: Effects) -> None:
    """The member has done it."""
    out.cancel(timer_key(name, group.group_id, member_id))

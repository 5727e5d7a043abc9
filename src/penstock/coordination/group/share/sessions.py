"""How long a silent member is taken to be alive.

As in consumer groups a heartbeat moves a deadline in memory and leaves the timer alone; the timer,
when it comes, looks at the deadline and is set anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.ids import Millis

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.share.group import ShareGroup

SESSION = "share-session"
"""The name of the timer: a member is silent."""


def begin_session(
    group: ShareGroup, member_id: str, span_ms: int, at: Moment, out: Effects
) -> None:
    """The member joined: its session begins, and somebody looks after it."""
    group.deadlines.pop(member_id, None)
    out.timer((SESSION, group.group_id, member_id), Millis(at.mono + span_ms))


def renew_session(group: ShareGroup, member_id: str, span_ms: int, at: Moment) -> None:
    """The member was heard of."""
    group.deadlines[member_id] = Millis(at.mono + span_ms)


def end_session(group: ShareGroup, member_id: str, out: Effects) -> None:
    """The member is gone: nothing is expected of it."""
    out.cancel((SESSION, group.group_id, member_id))

"""What share groups do when time passes or the cluster's metadata changes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.share.group import ShareGroup
from penstock.coordination.group.share.leaving import fence
from penstock.coordination.group.share.records import write_readiness
from penstock.coordination.group.share.sessions import SESSION, begin_session
from penstock.metadata.configs import GROUP
from penstock.model.ids import Millis

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard, OnTimer
    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.topics import TopicsDelta
    from penstock.model.errors import ErrorCode

log = logging.getLogger("penstock.coordination.group")

FORGET = ("share-forget",)
"""The name of a timer: the state of topics that are gone is forgotten."""

LOOK = ("share-look",)
LOOK_AFTER_MS = 600_000
"""Another: topics may have been deleted while nobody coordinated a group. That a topic is unknown
proves it only to a node which has had the time to hear of it."""


def on_loaded(shard: GroupShard, at: Moment, out: Effects) -> None:
    """The members that the log knows have one session's time to show themselves."""
    _restart_sessions(shard, shard.groups, at, out)
    if any(group.ready is not None for group in _share_groups(shard)):
        out.timer(LOOK, Millis(at.mono + LOOK_AFTER_MS))


def on_image(
    shard: GroupShard,
    image: MetadataImage,
    delta: MetadataDelta | None,
    at: Moment,
    out: Effects,
) -> None:
    """Have the groups whose topics changed look at them, each with its next heartbeat."""
    if delta is None:
        shard.shares.forget_all_paces()
        for group in _share_groups(shard):
            group.checked_at_epoch = None
            group.must_look = True
        # Sessions began before it was known which groups have a pace of their own.
        _restart_sessions(shard, image.configs.names(GROUP), at, out)
        return
    if delta.topics is not None:
        _recheck(shard, delta.topics, at, out)
    if delta.configs is not None:
        changed = [name for kind, name in delta.configs.changed if kind == GROUP]
        shard.shares.forget_paces(changed)
        _restart_sessions(shard, changed, at, out)


def _share_groups(shard: GroupShard) -> Iterator[ShareGroup]:
    return (group for group in shard.groups.values() if isinstance(group, ShareGroup))


def _recheck(shard: GroupShard, topics: TopicsDelta, at: Moment, out: Effects) -> None:
    names = {it.name for it in topics.changed.values()}
    names.update(it.name for it in topics.deleted.values())
    for group in _share_groups(shard):
        if not names.isdisjoint(group.names):
            group.checked_at_epoch = None
            group.must_look = True
    if topics.deleted:
        shard.shares.gone_topics.update(topics.deleted)
        out.timer(FORGET, at.mono)


def _restart_sessions(
    shard: GroupShard, group_ids: Iterable[str], at: Moment, out: Effects
) -> None:
    """A session may be shorter from now on than the timer that was set for it."""
    for group_id in group_ids:
        group = shard.groups.get(group_id)
        if isinstance(group, ShareGroup):
            session_ms = shard.shares.pace(group_id, shard.consumers.image).session_ms
            for member_id in group.members:
                begin_session(group, member_id, session_ms, at, out)


def _on_session(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:
    group = shard.groups.get(key[1])
    member = group.members.get(key[2]) if isinstance(group, ShareGroup) else None
    if not isinstance(group, ShareGroup) or member is None:
        return
    deadline = group.deadlines.pop(member.member_id, at.mono)
    if deadline > at.mono:
        out.timer(key, deadline)
        return
    log.info("group %s: %s was not heard of in time", group.group_id, member.member_id)
    fence(shard, group, member, out)


def _on_look(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:  # noqa: ARG001
    by_id = shard.consumers.image.topics.by_id
    for group in _share_groups(shard):
        for topics in group.readiness:
            shard.shares.gone_topics.update(it for it in topics if it not in by_id)
    out.timer(FORGET, at.mono)


def _on_forget(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:  # noqa: ARG001
    """Topics are gone. Share coordinators see that for themselves, and forget their state."""
    around = shard.shares
    gone, around.gone_topics = around.gone_topics, set()
    for group in _share_groups(shard):
        if group.readiness.mentions(gone):
            write_readiness(out, group.group_id, group.readiness.without_topics(gone))
    out.atomic = False

    def undo(_error: ErrorCode, _amends: Effects) -> None:
        around.gone_topics |= gone  # the runtime has the timer come again

    out.undo = undo


TIMERS: dict[str, OnTimer] = {
    SESSION: _on_session,
    FORGET[0]: _on_forget,
    LOOK[0]: _on_look,
}

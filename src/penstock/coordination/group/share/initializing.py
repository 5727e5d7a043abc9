"""Having share coordinators begin to keep state, before partitions are assigned.

The record that says so is written before anybody is asked: a new coordinator of the group finds in
it what is not known to be done, and asks again after a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.share.group import ShareGroup
from penstock.coordination.group.share.readiness import Topic, Topics, only, without
from penstock.coordination.group.share.records import write_readiness

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard


class Initialization(NamedTuple):
    """An errand: have the state of these partitions begun."""

    group_id: str
    epoch: int
    topics: Topics


def ask_for_missing(
    shard: GroupShard, group: ShareGroup, names: Iterable[str], epoch: int, at: Moment, out: Effects
) -> bool:
    """Ask for the state of partitions of these topics that have none; whether any was missing."""
    missing = _missing(shard, group, names, at)
    if not missing:
        return False
    group.asked_at |= dict.fromkeys(missing, at.mono)
    write_readiness(out, group.group_id, group.readiness.beginning(missing))
    out.errand(Initialization(group.group_id, epoch, missing))
    return True


def _missing(shard: GroupShard, group: ShareGroup, names: Iterable[str], at: Moment) -> Topics:
    by_name = shard.consumers.image.topics.by_name
    retry_ms = shard.settings.share.initialize_retry_ms
    initializing, initialized, _ = group.readiness
    missing = {}
    for name in sorted(names):
        topic = by_name.get(name)
        if topic is None:
            continue
        known = initialized[topic.id].partitions if topic.id in initialized else frozenset()
        if topic.id in initializing:
            # A coordinator that has just loaded the group does not know since when: from now on.
            asked_at = group.asked_at.setdefault(topic.id, at.mono)
            if at.mono - asked_at < retry_ms:
                known |= initializing[topic.id].partitions
        if len(known) < len(topic.partitions):
            missing[topic.id] = Topic(name, frozenset(topic.partitions) - known)
    return missing


def still_missing(shard: GroupShard, errand: Initialization) -> Topics:
    """What is to be begun when an errand is let go: an earlier one may have done it meanwhile."""
    group = shard.groups.get(errand.group_id)
    if not isinstance(group, ShareGroup):
        return {}
    return only(errand.topics, group.readiness.initializing)


def on_initialized(
    shard: GroupShard,
    out: Effects,
    group_id: str,
    done: Topics,
    failed: Topics,
) -> None:
    """What came of it: partitions are ready, or are asked for again with a later heartbeat."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return
    # The group may have been deleted and made anew meanwhile, and topics with it.
    done = only(done, group.readiness.initializing)
    failed = only(failed, group.readiness.initializing)
    if done or failed:
        write_readiness(out, group_id, group.readiness.begun(done).failed(without(failed, done)))

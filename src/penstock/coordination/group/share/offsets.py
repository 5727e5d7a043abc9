"""Where a share group begins in its partitions: looked at, set anew, thrown away.

The offsets themselves are with the share coordinators. Here it is decided which of them are asked,
and written down before they are and when they have done it. Only a group without members may be
changed: whoever leads a partition reads its state once, when the first member comes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.classic.creating import GROUPS_MAX
from penstock.coordination.group.consumer.refusal import Refusal
from penstock.coordination.group.share.group import ShareGroup
from penstock.coordination.group.share.leaving import not_a_share_group
from penstock.coordination.group.share.readiness import Readiness, Topic, Topics, union
from penstock.coordination.group.share.records import write_readiness
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard

NON_EMPTY = Refusal(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


class Alteration(NamedTuple):
    """What share coordinators have to begin anew, at the group's epoch."""

    epoch: int
    topics: Topics


class Removal(NamedTuple):
    """The state that share coordinators have to forget, and topics without any."""

    topics: Topics
    without_state: Collection[str] = ()


def ready_topics(shard: GroupShard, group_id: str) -> Topics:
    """The partitions that have state; none for a group that does not exist."""
    group = shard.groups.get(group_id)
    return group.readiness.initialized if isinstance(group, ShareGroup) else {}


def begin_altering(
    shard: GroupShard,
    at: Moment,
    out: Effects,
    group_id: str,
    wanted: Mapping[str, Collection[int]],
) -> Alteration | Refusal:
    """Partitions, by topic, are to get other offsets. Who names a new group makes it."""
    group = shard.groups.get(group_id)
    if group is None and len(shard.groups) >= GROUPS_MAX:
        return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "There are too many groups.")
    if group is None:
        group = ShareGroup(group_id)
    if not isinstance(group, ShareGroup):
        return not_a_share_group(group, group_id)
    if group.members:
        return NON_EMPTY
    by_name = shard.consumers.image.topics.by_name
    topics = {
        by_name[name].id: Topic(name, frozenset(numbers))
        for name, numbers in wanted.items()
        if name in by_name
    }
    if topics:
        group.asked_at |= dict.fromkeys(topics, at.mono)
        write_readiness(out, group_id, group.readiness.beginning(topics))
    return Alteration(group.epoch, topics)


def begin_forgetting(
    shard: GroupShard, out: Effects, group_id: str, names: Sequence[str]
) -> Removal | Refusal:
    """The state of these topics is thrown away. What was begun and not ended is done again."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return not_a_share_group(group, group_id)
    if group.members:
        return NON_EMPTY
    by_name = shard.consumers.image.topics.by_name
    ready = group.readiness
    going: dict[bytes, Topic] = {}
    without_state = []
    for name in dict.fromkeys(names):
        topic = by_name.get(name)
        if topic is not None and topic.id in ready.initialized:
            going[topic.id] = ready.initialized[topic.id]
        elif topic is not None and topic.id in ready.deleting:
            going[topic.id] = Topic(name, frozenset(topic.partitions))
        else:
            without_state.append(name)
    if group.ready is not None:  # even if nothing goes, as in Kafka
        names_by_id = {it: topic.name for it, topic in going.items()}
        write_readiness(out, group_id, ready.forgetting(names_by_id))
    return Removal(going, without_state)


def end_forgetting(
    shard: GroupShard, out: Effects, group_id: str, topic_ids: Collection[bytes]
) -> None:
    """Share coordinators have forgotten all that they knew of these topics."""
    group = shard.groups.get(group_id)
    if isinstance(group, ShareGroup) and group.readiness.mentions(topic_ids):
        write_readiness(out, group_id, group.readiness.forgotten(topic_ids))


def begin_forgetting_all(
    shard: GroupShard, out: Effects, group: ShareGroup, *, again: bool
) -> Topics:
    """The group will be deleted: all state that it has, or was about to have, goes first.

    `again`: what was being forgotten is forgotten by now. Members may have come and gone since.
    """
    ready = group.readiness
    going = dict(union(ready.initialized, ready.initializing))
    if not again:
        for topic_id in ready.deleting:
            topic = shard.consumers.image.topics.by_id.get(topic_id)
            if topic is not None:
                going[topic_id] = Topic(topic.name, frozenset(topic.partitions))
    if going:
        names_by_id = {it: topic.name for it, topic in going.items()}
        write_readiness(out, group.group_id, Readiness({}, {}, names_by_id))
    return going

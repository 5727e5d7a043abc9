"""A classic group becomes a consumer group, because somebody joins it with the new protocol."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.coordination.group.classic.creating import GROUPS_MAX
from penstock.coordination.group.classic.group import CONSUMER, ClassicGroup
from penstock.coordination.group.classic.rebalancing import JOIN, SYNC
from penstock.coordination.group.classic.replies import join_refused, sync_refused
from penstock.coordination.group.classic.sessions import forget
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.hashing import group_hash
from penstock.coordination.group.consumer.member import Member
from penstock.coordination.group.consumer.records import (
    write_current,
    write_epoch,
    write_member,
    write_target,
    write_target_epoch,
)
from penstock.coordination.group.consumer.refusal import Refusal
from penstock.coordination.group.consumer.sessions import begin_session
from penstock.coordination.group.migration.embedded import (
    by_id,
    read_assignment,
    read_subscription,
)
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.group_records import ClassicMemberMetadata, ClassicProtocol
from penstock.protocol.primitives import ProtocolError

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.classic.member import Member as ClassicMember
    from penstock.coordination.group.classic.member import Protocols
    from penstock.coordination.group.shard import GroupShard
    from penstock.metadata.topics import TopicsImage

log = logging.getLogger("penstock.coordination.group")

POLICIES = ("bidirectional", "upgrade")
"""Those of `group.consumer.migration.policy` that allow it."""


def consumer_group_for(
    shard: GroupShard, group_id: str, joins: bool, at: Moment, out: Effects
) -> ConsumerGroup | Refusal:
    """The consumer group of this name. Who joins may make it, or have a classic one converted.

    One that is made or converted is in the shard once this step's records are replayed.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if not joins:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    if group is None:
        if len(shard.groups) >= GROUPS_MAX:
            return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "There are too many groups.")
        return ConsumerGroup(group_id)
    if isinstance(group, ClassicGroup):
        if group.is_empty:
            group.delete(out)
            return ConsumerGroup(group_id)
        return _upgrade(shard, group, at, out)
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def _upgrade(
    shard: GroupShard, classic: ClassicGroup, at: Moment, out: Effects
) -> ConsumerGroup | Refusal:
    why = _why_not(shard, classic)
    if why is None:
        try:
            group = _converted(classic, shard.consumers.image.topics)
        except ProtocolError:
            why = "the embedded consumer protocol is malformed"
        except _CustomAssignor:
            why = (
                "an unsupported custom assignor is in use. Please refer to the documentation or "
                "switch to a default assignor before re-attempting the upgrade"
            )
    if why is not None:
        message = f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}"
        log.warning("%s", message)
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{message}.")
    around = shard.consumers
    group.metadata_hash = group_hash(group.subscriptions.topics, around.image, around.hashes)
    _let_go(classic, out)
    _write(group, out)
    for member in group.members.values():
        assert member.classic is not None
        begin_session(group, member.member_id, member.classic.session_timeout_ms, at, out)
    log.info("group %s becomes a consumer group", classic.group_id)
    return group


class _CustomAssignor(Exception):
    """An assignment holds more than partitions, and that would be lost."""


def _why_not(shard: GroupShard, classic: ClassicGroup) -> str | None:
    if shard.settings.consumer_migration not in POLICIES:
        return "online upgrade is disabled"
    if classic.protocol_type != CONSUMER:
        return "the group does not use the consumer embedded protocol"
    if len(classic.members) > shard.settings.consumer_size_max:
        return "the group size exceeds the consumer group maximum size"
    return None


def _converted(classic: ClassicGroup, topics: TopicsImage) -> ConsumerGroup:
    """The same members with the same partitions; all of them still speak the classic protocol."""
    group = ConsumerGroup(classic.group_id)
    group.epoch = group.target_epoch = classic.generation
    taken: set[tuple[bytes, int]] = set()
    for old in classic.members.values():
        partitions = _partitions_of(old, topics)
        mine = {(topic, number) for topic, numbers in partitions.items() for number in numbers}
        if not taken.isdisjoint(mine):
            raise ProtocolError("two members have one partition")
        taken |= mine
        epoch = classic.generation
        group.target[old.member_id] = {it: frozenset(has) for it, has in partitions.items()}
        assigned = {it: dict.fromkeys(has, epoch) for it, has in partitions.items()}
        member = _member(old, classic.protocol_name, epoch)
        group.put(member._replace(assigned=assigned))
    return group


def _partitions_of(member: ClassicMember, topics: TopicsImage) -> dict[bytes, list[int]]:
    if not member.assignment:
        return {}
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _CustomAssignor
    return by_id(((it.topic, it.partitions) for it in assignment.assigned_partitions), topics)


def _member(old: ClassicMember, protocol: str | None, epoch: int) -> Member:
    # A group in its first rebalance has not agreed on a protocol: then what they like best.
    said = old.protocols[0][1] if protocol is None else old.metadata(protocol)
    subscription = read_subscription(said)
    return Member(
        old.member_id,
        epoch=epoch,
        previous_epoch=epoch,
        instance_id=old.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        client_id=old.client_id,
        client_host=old.client_host,
        topics=frozenset(subscription.topics),
        classic=classic_metadata(old.session_timeout_ms, old.protocols),
    )


def classic_metadata(session_timeout_ms: int, protocols: Protocols) -> ClassicMemberMetadata:
    """What a consumer group keeps of a member that speaks the classic protocol."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=name, metadata=said) for name, said in protocols],
    )


def _let_go(classic: ClassicGroup, out: Effects) -> None:
    """The classic group ends. Who waits in it learns that all have to join again.

    Its memory stays as it is: should this step be refused, nothing has happened.
    """
    for member_id, ticket in classic.joins.items():
        out.reply(ticket, join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member_id))
    for ticket in classic.syncs.values():
        out.reply(ticket, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
    for member_id in (*classic.members, *classic.pending):
        forget(classic, member_id, out)
    out.cancel((JOIN, classic.group_id))
    out.cancel((SYNC, classic.group_id))
    classic.delete(out)


def _write(group: ConsumerGroup, out: Effects) -> None:
    for member in group.members.values():
        write_member(out, group.group_id, member)
    write_epoch(out, group.group_id, group.epoch, group.metadata_hash)
    for member_id, partitions in group.target.items():
        write_target(out, group.group_id, member_id, partitions)
    write_target_epoch(out, group.group_id, group.target_epoch, group.target_at)
    for member in group.members.values():
        write_current(out, group.group_id, member)

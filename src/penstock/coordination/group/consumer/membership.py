"""Who a heartbeat comes from: a member that is known, a new one, or a static one that is back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.group import NO_TARGET, ConsumerGroup
from penstock.coordination.group.consumer.member import AWAY, JOINING, Held, Member
from penstock.coordination.group.consumer.records import (
    forget_member,
    write_current,
    write_member,
    write_target,
)
from penstock.coordination.group.consumer.refusal import (
    Refusal,
    fenced_epoch,
    fenced_instance,
    unknown_instance,
    unknown_member,
)
from penstock.coordination.group.consumer.sessions import end_session
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects
    from penstock.coordination.group.consumer.reconcile import Owned


def find_member(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    owned: Owned | None,
    out: Effects,
) -> Member | Refusal:
    """The member that a heartbeat is from, made if it joins."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            return Member(member_id) if epoch == JOINING else _unknown(group, member_id)
        return _check_epoch(member, epoch, owned) or member
    current = group.static_member(instance_id)
    if epoch == JOINING:
        return join_static(group, member_id, instance_id, out, is_classic=False)
    if current is None:
        return unknown_instance(instance_id)
    if current.member_id != member_id:
        return fenced_instance(member_id, instance_id, current.member_id)
    return _check_epoch(current, epoch, owned) or current


def join_static(
    group: ConsumerGroup, member_id: str, instance_id: str, out: Effects, is_classic: bool
) -> Member | Refusal:
    """A static member joins. If it was here before it gets its place and its partitions back.

    In the new protocol it must have said that it leaves: else two may run under one name.
    """
    current = group.static_member(instance_id)
    if current is None:
        return group.members.get(member_id) or Member(member_id)
    if not is_classic and current.classic is None and current.epoch != AWAY:
        return Refusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {current.member_id} member.",
        )
    back = current._replace(member_id=member_id, epoch=JOINING, previous_epoch=JOINING)
    forget_member(out, group.group_id, current.member_id)
    end_session(group, current.member_id, out)
    write_member(out, group.group_id, back)
    target = group.target.get(current.member_id, NO_TARGET)
    write_target(out, group.group_id, member_id, target)
    write_current(out, group.group_id, back)
    return back


def _unknown(group: ConsumerGroup, member_id: str) -> Refusal:
    return unknown_member(member_id, group.group_id)


def _check_epoch(member: Member, epoch: int, owned: Owned | None) -> Refusal | None:
    """A member may be one answer behind: it lost the last one. Then it has nothing that is new."""
    if epoch in (JOINING, member.epoch):
        return None
    if epoch > member.epoch:
        return fenced_epoch("greater", epoch, member.epoch)
    if epoch == member.previous_epoch and owned is not None and _is_within(owned, member.assigned):
        return None
    return fenced_epoch("smaller", epoch, member.epoch)


def _is_within(owned: Owned, held: Held) -> bool:
    return all(
        topic_id in held and all(number in held[topic_id] for number in numbers)
        for topic_id, numbers in owned.items()
    )

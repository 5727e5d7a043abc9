"""Classic groups as records, in the layout that Kafka 4.3 writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.coordination.group.classic.member import Member
from penstock.protocol.generated.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects
    from penstock.coordination.group.classic.group import ClassicGroup
    from penstock.model.errors import ErrorCode

VALUE_VERSION = 3
NO_TIMESTAMP = -1


def group_key(group_id: str) -> GroupMetadataKey:
    """The key under which the log keeps a group."""
    return GroupMetadataKey(group=group_id)


def group_value(group: ClassicGroup, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
    """The group with these assignments; members without one have nothing to do."""
    name = group.protocol_name
    return GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=name,
        leader=group.leader_id,
        current_state_timestamp=NO_TIMESTAMP if group.since is None else group.since,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(name) if name is not None else b"",
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )


def new_group_value(group: ClassicGroup) -> GroupMetadataValue:
    """A group that somebody has just asked for: that it exists is all there is to say."""
    return GroupMetadataValue(
        protocol=None,
        leader=None,
        current_state_timestamp=NO_TIMESTAMP if group.since is None else group.since,
    )


def member_of(value: MemberMetadata, protocol: str | None) -> Member:
    """A member as the log knows it: of its protocols only the chosen one is kept."""
    return Member(
        value.member_id,
        value.group_instance_id,
        value.client_id,
        value.client_host,
        value.session_timeout if value.rebalance_timeout == -1 else value.rebalance_timeout,
        value.session_timeout,
        ((protocol or "", bytes(value.subscription)),),
        bytes(value.assignment),
    )


def write(
    group: ClassicGroup,
    value: GroupMetadataValue,
    out: Effects,
    refused: Callable[[ErrorCode, Effects], None] | None = None,
) -> None:
    """Put the group into the log; `refused` brings memory back if the log does not take it."""
    group.proposed = value
    out.record(group_key(group.group_id), value, VALUE_VERSION)

    def undo(error: ErrorCode, amends: Effects) -> None:
        group.proposed = None
        # Memory has gone ahead of the log, and its deadlines are as true as they were.
        amends.timers.update(out.timers)
        amends.cancelled.update(out.cancelled)
        if refused is not None:
            refused(error, amends)

    out.undo = undo

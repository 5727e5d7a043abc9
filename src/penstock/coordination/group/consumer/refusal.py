"""Why a request is not granted: Kafka's code, and a sentence for whoever reads the client's log."""

from __future__ import annotations

from typing import NamedTuple

from penstock.model.errors import ErrorCode


class Refusal(NamedTuple):
    """A peer's mistake, or bad luck, as a value."""

    error: ErrorCode
    message: str


def unknown_member(member_id: str, group_id: str) -> Refusal:
    """Nobody has this id, or nobody has it any more."""
    return Refusal(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def unknown_instance(instance_id: str) -> Refusal:
    """No static member has this name."""
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")


def fenced_instance(member_id: str, instance_id: str, by: str) -> Refusal:
    """Another member has come under the same name."""
    return Refusal(
        ErrorCode.FENCED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} was fenced by member {by}.",
    )


def fenced_epoch(how: str, received: int, known: int) -> Refusal:
    """The member is not where it says that it is."""
    return Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({received}) than the one known by "
        f"the group coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )

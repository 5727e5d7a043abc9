"""What is wrong with a heartbeat by itself, before anybody looks at its group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.refusal import Refusal
from penstock.coordination.group.share.member import JOINING, LEFT
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.protocol.generated.share_group_heartbeat import ShareGroupHeartbeatRequest


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> Refusal | None:
    """Why such a request means nothing, or None."""
    problem = _problem(request)
    return None if problem is None else Refusal(ErrorCode.INVALID_REQUEST, problem)


def _problem(request: ShareGroupHeartbeatRequest) -> str | None:
    if not request.member_id.strip():
        return "MemberId can't be empty."
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.member_epoch == JOINING and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    if request.member_epoch < LEFT:
        return "MemberEpoch is invalid."
    return None

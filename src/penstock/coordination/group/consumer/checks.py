"""What is wrong with a heartbeat by itself, before anybody looks at its group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.assignors import assignor_names
from penstock.coordination.group.consumer.member import AWAY, JOINING, LEFT
from penstock.coordination.group.consumer.refusal import Refusal
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

OWN_ID_FROM = 1
"""The version from which members bring their own id."""


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, version: int, configured: tuple[str, ...]
) -> Refusal | None:
    """Why such a request means nothing, or None. `configured` are the assignors."""
    problem = _check_texts(request, version) or _check_epoch(request)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, problem)
    if request.server_assignor is None:
        return None
    supported = assignor_names(configured)
    if request.server_assignor in supported:
        return None
    return Refusal(
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        f"ServerAssignor {request.server_assignor} is not supported. "
        f"Supported assignors: {', '.join(supported)}.",
    )


def _check_texts(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    needs_id = version >= OWN_ID_FROM or request.member_epoch > 0 or request.member_epoch == LEFT
    if needs_id and not request.member_id.strip():
        return "MemberId can't be empty."
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if request.instance_id is not None and not request.instance_id.strip():
        return "InstanceId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    return None


def _check_epoch(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.member_epoch == JOINING:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        if request.topic_partitions is None or request.topic_partitions:
            return "TopicPartitions must be empty when (re-)joining."
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return (
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null "
                "when (re-)joining."
            )
    elif request.member_epoch == AWAY and request.instance_id is None:
        return "InstanceId can't be null."
    elif request.member_epoch < AWAY:
        return "MemberEpoch is invalid."
    return None

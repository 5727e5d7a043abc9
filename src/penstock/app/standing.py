"""What the controller's answers mean for a broker: pure, so that each one can be looked up."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage


class Verdict(Enum):
    """What to do after an answer."""

    TAKEN = "go on"
    AGAIN = "ask again, after a while"
    REGISTER = "register anew"
    NEVER = "stop: asking again would change nothing"


ADVICE = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the cluster has another id than this node's directories; "
    "give the node directories and controllers of one cluster",
    ErrorCode.UNSUPPORTED_VERSION: "this release does not support the features that the cluster "
    "has agreed on; start another release",
    ErrorCode.INVALID_REGISTRATION: "its log directories cannot be registered; two brokers must "
    "not have copies of one meta.properties (see directory.id)",
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "another process with this node.id is alive, or was "
    "a moment ago; give each node an id of its own",
}
"""What an operator can do about a refusal."""

_FINAL = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REGISTRATION,
    }
)


def after_registration(error: ErrorCode) -> Verdict:
    """A duplicate may be this broker's own past, which ends with its session."""
    if error is ErrorCode.NONE:
        return Verdict.TAKEN
    return Verdict.NEVER if error in _FINAL else Verdict.AGAIN


def after_heartbeat(error: ErrorCode, usurped: bool) -> Verdict:
    """`usurped` says that the metadata name another process under this broker's id."""
    if error is ErrorCode.NONE:
        return Verdict.TAKEN
    if error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
        return Verdict.NEVER if usurped else Verdict.REGISTER
    return Verdict.AGAIN


def is_usurped(image: MetadataImage, node_id: int, incarnation: bytes, epoch: int) -> bool:
    """Whether somebody else registered as this broker, after it did."""
    registered = image.cluster.brokers.get(node_id)
    return (
        registered is not None
        and registered.incarnation != incarnation
        and registered.epoch > epoch
    )


def is_news(before: MetadataImage, image: MetadataImage, node_id: int, *, fenced: bool) -> bool:
    """Whether the controller should hear from this broker before its next heartbeat is due.

    It was fenced or forgotten while it is alive; or another one leaves, which must wait until all
    others have seen that it does.
    """
    if before.cluster is image.cluster:
        return False
    own = image.cluster.brokers.get(node_id)
    if own is None or (own.fenced and not fenced):
        return True
    past = before.cluster.brokers
    return any(
        each.shutting_down and not (each.id in past and past[each.id].shutting_down)
        for each in image.cluster.brokers.values()
        if each.id != node_id
    )

"""What the node's configuration says to share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.model.config.node import NodeConfig


class ShareGroupSettings(NamedTuple):
    """Bounds and intervals of one node, at Kafka's defaults."""

    size_max: int = 200
    session_ms: int = 45_000
    heartbeat_ms: int = 5_000
    assignment_ms: int = 1_000
    """The least time between two targets."""
    initialize_retry_ms: int = 30_000
    """After which the state of partitions that nobody has told of is asked for again."""

    @classmethod
    def of(cls, config: NodeConfig) -> ShareGroupSettings:
        """As the node's configuration says."""
        number = config.get_int
        return cls(
            size_max=number("group.share.max.size"),
            session_ms=number("group.share.session.timeout.ms"),
            heartbeat_ms=number("group.share.heartbeat.interval.ms"),
            assignment_ms=number("group.share.assignment.interval.ms"),
            initialize_retry_ms=number("group.share.initialize.retry.interval.ms"),
        )

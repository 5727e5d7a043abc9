"""What the node's configuration says to the share coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.model.config.node import NodeConfig


class ShareSettings(NamedTuple):
    """Bounds and intervals of one node."""

    updates_per_snapshot: int = 500
    """Updates of one key before its whole state is written down again."""
    cold_ms: int = 300_000
    """The age at which the snapshot of a key that nobody writes is written again."""
    prune_ms: int = 300_000
    """How often what nobody needs any more is cut off the log."""

    @classmethod
    def of(cls, config: NodeConfig) -> ShareSettings:
        """As the node's configuration says."""
        number = config.get_int
        return cls(
            number("share.coordinator.snapshot.update.records.per.snapshot"),
            number("share.coordinator.cold.partition.snapshot.interval.ms"),
            number("share.coordinator.state.topic.prune.interval.ms"),
        )

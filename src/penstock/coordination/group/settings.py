"""What the node's configuration says to the group coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.share.settings import ShareGroupSettings
from penstock.coordination.group.streams.settings import StreamsSettings

if TYPE_CHECKING:
    from penstock.model.config.node import NodeConfig


class GroupSettings(NamedTuple):
    """Bounds and intervals of one node."""

    size_max: int
    session_timeout_min_ms: int
    session_timeout_max_ms: int
    initial_rebalance_delay_ms: int
    metadata_bytes_max: int
    """Of what a client may add to a committed offset."""
    retention_ms: int
    """How long offsets outlive their use."""
    retention_check_ms: int
    consumer_size_max: int
    consumer_session_timeout_ms: int
    consumer_heartbeat_interval_ms: int
    consumer_assignors: tuple[str, ...]
    """The first one counts where a member asks for none."""
    consumer_migration: str
    """Of "bidirectional", "upgrade", "downgrade" and "disabled"."""
    consumer_regex_refresh_ms: int
    consumer_assignment_interval_ms: int = 0
    share: ShareGroupSettings = ShareGroupSettings()
    streams: StreamsSettings = StreamsSettings()
    node: NodeConfig | None = None
    """What groups' own configuration falls back to; without it they have none."""

    @classmethod
    def of(cls, config: NodeConfig) -> GroupSettings:
        """As the node's configuration says."""
        number = config.get_int
        return cls(
            size_max=number("group.max.size"),
            session_timeout_min_ms=number("group.min.session.timeout.ms"),
            session_timeout_max_ms=number("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
            metadata_bytes_max=number("offset.metadata.max.bytes"),
            retention_ms=number("offsets.retention.minutes") * 60_000,
            retention_check_ms=number("offsets.retention.check.interval.ms"),
            consumer_size_max=number("group.consumer.max.size"),
            consumer_session_timeout_ms=number("group.consumer.session.timeout.ms"),
            consumer_heartbeat_interval_ms=number("group.consumer.heartbeat.interval.ms"),
            consumer_assignors=tuple(config.get_list("group.consumer.assignors")),
            consumer_migration=str(config["group.consumer.migration.policy"]).lower(),
            consumer_regex_refresh_ms=number("group.consumer.regex.refresh.interval.ms"),
            consumer_assignment_interval_ms=number("group.consumer.assignment.interval.ms"),
            share=ShareGroupSettings.of(config),
            streams=StreamsSettings.of(config),
            node=config,
        )

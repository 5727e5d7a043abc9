"""What the operator may choose about the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.storage.log_config import DAY_MS, UNBOUNDED, LogConfig

if TYPE_CHECKING:
    from penstock.model.config.node import NodeConfig


class MetadataLogSettings(NamedTuple):
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    snapshot_bytes: int = 20 << 20
    """Bytes of records since the last snapshot after which there shall be a new one."""
    snapshot_interval_ms: int = 60 * 60 * 1000
    """Time after which there shall be a new one if anything changed; 0 for never."""
    retention_bytes: int = 100 << 20
    retention_ms: int = 7 * DAY_MS

    @classmethod
    def of(cls, config: NodeConfig) -> MetadataLogSettings:
        return cls(
            config.get_int("metadata.log.segment.bytes"),
            config.get_int("metadata.log.segment.ms"),
            config.get_int("metadata.log.max.record.bytes.between.snapshots"),
            config.get_int("metadata.log.max.snapshot.interval.ms"),
            config.get_int("metadata.max.retention.bytes"),
            config.get_int("metadata.max.retention.ms"),
        )

    @property
    def log_config(self) -> LogConfig:
        """The log never expires by itself: only what a snapshot stands for may go."""
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            retention_ms=UNBOUNDED,
            retention_bytes=UNBOUNDED,
            cleanup_delete=False,
        )

"""What storage needs to know of a topic's configuration, with Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

FOREVER = 2**63 - 1
"""Kafka's "never" for times and counts."""

DAY_MS = 24 * 60 * 60 * 1000
UNBOUNDED = -1


class LogConfig(NamedTuple):
    """A topic's effective settings, typed. Immutable: a change makes a new one."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = UNBOUNDED
    flush_messages: int = FOREVER
    flush_ms: int = FOREVER
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER
    file_delete_delay_ms: int = 60_000
    message_max_bytes: int = 1_048_588
    timestamp_append: bool = False
    timestamp_before_max_ms: int = FOREVER
    timestamp_after_max_ms: int = 60 * 60 * 1000
    compression_type: str = "producer"
    gzip_level: int = -1
    lz4_level: int = 9
    zstd_level: int = 3
    preallocate: bool = False
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    delay_enable: bool = False
    delay_max_ms: int = 30 * DAY_MS
    delay_max_records: int = 1_000_000
    ttl_enable: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> LogConfig:
        """From Kafka's topic configuration names to typed values; absent ones get the default."""
        found = {field: values[name] for name, field in _FIELDS.items() if name in values}
        if (policy := values.get("cleanup.policy")) is not None:
            policies = policy.split(",") if isinstance(policy, str) else policy
            wanted = {each.strip() for each in policies}
            found["cleanup_delete"] = "delete" in wanted
            found["cleanup_compact"] = "compact" in wanted
        if (kind := values.get("message.timestamp.type")) is not None:
            found["timestamp_append"] = kind == "LogAppendTime"
        return cls(**found)


_FIELDS = {
    "segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "segment.jitter.ms": "segment_jitter_ms",
    "segment.index.bytes": "segment_index_bytes",
    "index.interval.bytes": "index_interval_bytes",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "flush.messages": "flush_messages",
    "flush.ms": "flush_ms",
    "min.cleanable.dirty.ratio": "min_cleanable_dirty_ratio",
    "delete.retention.ms": "delete_retention_ms",
    "min.compaction.lag.ms": "min_compaction_lag_ms",
    "max.compaction.lag.ms": "max_compaction_lag_ms",
    "file.delete.delay.ms": "file_delete_delay_ms",
    "max.message.bytes": "message_max_bytes",
    "message.timestamp.before.max.ms": "timestamp_before_max_ms",
    "message.timestamp.after.max.ms": "timestamp_after_max_ms",
    "compression.type": "compression_type",
    "compression.gzip.level": "gzip_level",
    "compression.lz4.level": "lz4_level",
    "compression.zstd.level": "zstd_level",
    "preallocate": "preallocate",
    "min.insync.replicas": "min_insync_replicas",
    "unclean.leader.election.enable": "unclean_leader_election",
    "penstock.ttl.enable": "ttl_enable",
    "penstock.delivery.delay.enable": "delay_enable",
    "penstock.delivery.delay.max.ms": "delay_max_ms",
    "penstock.delivery.delay.max.records": "delay_max_records",
}

"""Records to fold, one of each kind and more."""

from __future__ import annotations

from typing import Any

from penstock.protocol.generated import metadata_records as m

TOPIC_A, TOPIC_B = b"A" * 16, b"B" * 16
DIRECTORY = b"d" * 16


def topic(name: str = "a", topic_id: bytes = TOPIC_A) -> m.TopicRecord:
    return m.TopicRecord(name=name, topic_id=topic_id)


def partition(index: int = 0, topic_id: bytes = TOPIC_A, **fields: Any) -> m.PartitionRecord:
    defaults: dict[str, Any] = {
        "replicas": [1, 2],
        "isr": [1, 2],
        "leader": 1,
        "leader_epoch": 3,
        "partition_epoch": 5,
        "directories": [DIRECTORY, DIRECTORY],
    }
    return m.PartitionRecord(partition_id=index, topic_id=topic_id, **{**defaults, **fields})


def change(index: int = 0, topic_id: bytes = TOPIC_A, **fields: Any) -> m.PartitionChangeRecord:
    return m.PartitionChangeRecord(partition_id=index, topic_id=topic_id, **fields)


def broker(broker_id: int = 1, epoch: int = 10, **fields: Any) -> m.RegisterBrokerRecord:
    defaults: dict[str, Any] = {
        "incarnation_id": bytes([broker_id]) * 16,
        "end_points": [m.BrokerEndpoint(name="PLAINTEXT", host="h", port=9092)],
        "features": [
            m.BrokerFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            )
        ],
        "log_dirs": [DIRECTORY],
    }
    return m.RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch, **{**defaults, **fields})


def feature(name: str = "metadata.version", level: int = 30) -> m.FeatureLevelRecord:
    return m.FeatureLevelRecord(name=name, feature_level=level)


def config(kind: int, name: str, key: str, value: str | None) -> m.ConfigRecord:
    return m.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)

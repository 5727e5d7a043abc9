"""A topic's effective configuration, from its overrides down to Kafka's defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.configs import BROKER, TOPIC
from penstock.model.config.topics import effective_topic_config
from penstock.storage.log_config import LogConfig

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage
    from penstock.model.config.node import NodeConfig

EVERY_BROKER = ""
"""The name under which configurations of all brokers are kept."""


def log_config_of(node: NodeConfig, image: MetadataImage, topic: str) -> LogConfig:
    """What storage needs to know about a topic."""
    configs = image.configs
    return LogConfig.of(
        effective_topic_config(
            configs.of(TOPIC, topic),
            node,
            configs.of(BROKER, str(node.node_id)),
            configs.of(BROKER, EVERY_BROKER),
        )
    )

"""What the metadata says about throttled replication, for both of its directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.configs import BROKER, TOPIC
from penstock.replica.throttle import UNBOUNDED, Throttle
from penstock.server.topic_configs import EVERY_BROKER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.model.config.node import NodeConfig


class Throttles:
    """The throttles of one broker, kept as the configuration says."""

    def __init__(self, config: NodeConfig) -> None:
        self._node_id = config.node_id
        samples = config.get_int("replication.quota.window.num")
        sample_ms = 1000 * config.get_int("replication.quota.window.size.seconds")
        self.leader = Throttle(samples, sample_ms)
        """Of what other brokers copy from here."""
        self.follower = Throttle(samples, sample_ms)
        """Of what this broker copies."""

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Rates or throttled replicas may have changed."""
        if delta.configs is None:
            return
        # Sorted, as sets come in any order.
        for kind, name in sorted(set(delta.configs.changed) | delta.configs.removed):
            if kind == TOPIC:
                self._choose(name, image.configs.of(TOPIC, name))
        own = image.configs.of(BROKER, str(self._node_id))
        rates = {**image.configs.of(BROKER, EVERY_BROKER), **own}
        self.leader.rate_max = _rate(rates, "leader.replication.throttled.rate")
        self.follower.rate_max = _rate(rates, "follower.replication.throttled.rate")

    def _choose(self, topic: str, config: Mapping[str, str]) -> None:
        for throttle, key in (
            (self.leader, "leader.replication.throttled.replicas"),
            (self.follower, "follower.replication.throttled.replicas"),
        ):
            throttle.choose(topic, config.get(key, "").split(","), self._node_id)


def _rate(settings: Mapping[str, str], name: str) -> int:
    text = settings.get(name, "")
    return int(text) if text.isdecimal() else UNBOUNDED

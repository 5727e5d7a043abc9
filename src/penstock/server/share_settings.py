"""What a share group's configuration says about its deliveries and about reading for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.coordination.delivery.settings import Backoff, DeliverySettings
from penstock.metadata.configs import GROUP
from penstock.model.config.groups import effective_group_config, group_defaults

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.metadata.image import MetadataImage
    from penstock.model.config.node import NodeConfig

DEAD_LETTERS = "errors.deadletterqueue.topic.name"


class ShareSettings(NamedTuple):
    """Of one group."""

    delivery: DeliverySettings
    committed_only: bool
    """Whether records of open and aborted transactions stay unseen."""
    reset: str
    """Where to begin in a partition that the group never read."""

    @classmethod
    def of(cls, group_id: str, image: MetadataImage, node: NodeConfig) -> ShareSettings:
        """As the group's own configuration says, and the node's where it says nothing."""
        overrides = image.configs.of(GROUP, group_id)
        values = effective_group_config(overrides, node) if overrides else group_defaults(node)
        return cls(
            DeliverySettings(
                lock_ms=cast(int, values["share.record.lock.duration.ms"]),
                count_max=cast(int, values["share.delivery.count.limit"]),
                in_flight_max=cast(int, values["share.partition.max.record.locks"]),
                renewable=cast(bool, values["share.renew.acknowledge.enable"]),
                backoff=_backoff(values),
                buries=bool(values.get(DEAD_LETTERS)),
            ),
            values["share.isolation.level"] == "read_committed",
            cast(str, values["share.auto.offset.reset"]),
        )


def _backoff(values: Mapping[str, object]) -> Backoff:
    return Backoff(
        initial_ms=cast(int, values["penstock.share.retry.backoff.ms"]),
        max_ms=cast(int, values["penstock.share.retry.backoff.max.ms"]),
        multiplier=cast(float, values["penstock.share.retry.backoff.multiplier"]),
        jitter=cast(float, values["penstock.share.retry.backoff.jitter"]),
    )

"""The whole of the cluster's metadata at one offset of the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.metadata.acls import AclsImage
from penstock.metadata.cluster import ClusterImage
from penstock.metadata.configs import ConfigsImage
from penstock.metadata.delegation_tokens import DelegationTokensImage
from penstock.metadata.features import FeaturesImage
from penstock.metadata.producer_ids import ProducerIdsImage
from penstock.metadata.quotas import ClientQuotasImage
from penstock.metadata.scram import ScramImage
from penstock.metadata.topics import TopicsImage

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS = (
    "features",
    "cluster",
    "topics",
    "configs",
    "client_quotas",
    "producer_ids",
    "acls",
    "scram",
    "delegation_tokens",
)
"""The parts of an image, in the order in which a snapshot writes them."""


class MetadataImage:
    """Everything the metadata log says up to and including `offset`. Never changes.

    Readers take one reference and see one consistent state for as long as they hold it; the next
    state is another image, which shares every part that did not change.
    """

    __slots__ = ("epoch", "offset", *PARTS)

    features: FeaturesImage
    cluster: ClusterImage
    topics: TopicsImage
    configs: ConfigsImage
    client_quotas: ClientQuotasImage
    producer_ids: ProducerIdsImage
    acls: AclsImage
    scram: ScramImage
    delegation_tokens: DelegationTokensImage

    def __init__(self, offset: int = -1, epoch: int = -1, **parts: Any) -> None:
        self.offset = offset
        self.epoch = epoch
        for name in PARTS:
            setattr(self, name, parts[name] if name in parts else _EMPTY[name])

    def __eq__(self, other: object) -> bool:
        """Same metadata; the offsets at which two logs said so do not matter."""
        return isinstance(other, MetadataImage) and all(
            getattr(self, name) == getattr(other, name) for name in PARTS
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"MetadataImage(offset={self.offset}, epoch={self.epoch}, "
            f"topics={len(self.topics.by_id)}, brokers={sorted(self.cluster.brokers)})"
        )

    @property
    def empty(self) -> bool:
        return self.offset < 0

    def records(self) -> Iterator[Any]:
        """The records that, folded into an empty image, give this one: a snapshot's content."""
        yield from self.features.records()
        yield from self.cluster.records(self.features.metadata_version)
        for name in PARTS[2:]:
            yield from getattr(self, name).records()


_EMPTY: dict[str, Any] = {
    "features": FeaturesImage(),
    "cluster": ClusterImage(),
    "topics": TopicsImage(),
    "configs": ConfigsImage(),
    "client_quotas": ClientQuotasImage(),
    "producer_ids": ProducerIdsImage(),
    "acls": AclsImage(),
    "scram": ScramImage(),
    "delegation_tokens": DelegationTokensImage(),
}

EMPTY = MetadataImage()

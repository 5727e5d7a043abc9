"""Records in, the next image out, and a list of what changed on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.metadata.acls import AclsDelta
from penstock.metadata.cluster import ClusterDelta
from penstock.metadata.configs import ConfigsDelta
from penstock.metadata.delegation_tokens import DelegationTokensDelta
from penstock.metadata.features import FeaturesDelta
from penstock.metadata.image import PARTS, MetadataImage
from penstock.metadata.producer_ids import ProducerIdsDelta
from penstock.metadata.quotas import ClientQuotasDelta
from penstock.metadata.scram import ScramDelta
from penstock.metadata.topics import TopicsDelta
from penstock.model.invariants import invariant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_DELTAS: dict[str, Callable[[Any], Any]] = {
    "features": FeaturesDelta,
    "cluster": ClusterDelta,
    "topics": TopicsDelta,
    "configs": ConfigsDelta,
    "client_quotas": ClientQuotasDelta,
    "producer_ids": ProducerIdsDelta,
    "acls": AclsDelta,
    "scram": ScramDelta,
    "delegation_tokens": DelegationTokensDelta,
}

_REPLAYS: dict[int, tuple[str, Callable[[Any, Any], object]]] = {
    0: ("cluster", ClusterDelta.register_broker),
    1: ("cluster", ClusterDelta.unregister_broker),
    2: ("topics", TopicsDelta.topic),
    3: ("topics", TopicsDelta.partition),
    4: ("configs", ConfigsDelta.config),
    5: ("topics", TopicsDelta.partition_change),
    7: ("cluster", ClusterDelta.fence),
    8: ("cluster", ClusterDelta.unfence),
    10: ("delegation_tokens", DelegationTokensDelta.token),
    11: ("scram", ScramDelta.credential),
    12: ("features", FeaturesDelta.level),
    14: ("client_quotas", ClientQuotasDelta.quota),
    15: ("producer_ids", ProducerIdsDelta.block),
    17: ("cluster", ClusterDelta.change_registration),
    18: ("acls", AclsDelta.entry),
    19: ("acls", AclsDelta.remove),
    22: ("scram", ScramDelta.remove),
    26: ("delegation_tokens", DelegationTokensDelta.remove),
    27: ("cluster", ClusterDelta.register_controller),
    28: ("topics", TopicsDelta.clear_elr),
}
"""What each record does, by its number in the metadata log."""

REMOVE_TOPIC = 9
BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION = 23, 24, 25

_WITHOUT_STATE = frozenset({20, 21, BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION})
"""No-ops, the state of a migration that has long ended, and marks that the loader heeds."""


class MetadataDelta:
    """Changes on top of one image.

    Each part (`topics`, `configs`, ...) is None until a record touches it, and then says what
    changed, so that a broker reconciles itself to the difference and not to the whole.
    """

    __slots__ = ("image", *PARTS)

    features: FeaturesDelta | None
    cluster: ClusterDelta | None
    topics: TopicsDelta | None
    configs: ConfigsDelta | None
    client_quotas: ClientQuotasDelta | None
    producer_ids: ProducerIdsDelta | None
    acls: AclsDelta | None
    scram: ScramDelta | None
    delegation_tokens: DelegationTokensDelta | None

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        for name in PARTS:
            setattr(self, name, None)

    @property
    def empty(self) -> bool:
        """Whether no record has touched anything."""
        return all(getattr(self, name) is None for name in PARTS)

    def replay(self, record: Any) -> None:
        """Fold one metadata record in."""
        key: int = record.API_KEY
        found = _REPLAYS.get(key)
        if found is not None:
            name, act = found
            act(getattr(self, name) or self.begin(name), record)
        elif key == REMOVE_TOPIC:
            topics: TopicsDelta = self.topics or self.begin("topics")
            configs: ConfigsDelta = self.configs or self.begin("configs")
            configs.remove_topic(topics.remove(record))
        else:
            invariant(key in _WITHOUT_STATE, f"metadata record {key} has no meaning here")

    def replay_all(self, records: Iterable[Any]) -> MetadataDelta:
        for record in records:
            self.replay(record)
        return self

    def begin(self, name: str) -> Any:
        """The changes of one part, none so far."""
        part = _DELTAS[name](getattr(self.image, name))
        setattr(self, name, part)
        return part

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """The image after these changes; parts that nobody touched are shared with the old one."""
        parts = {}
        for name in PARTS:
            part = getattr(self, name)
            parts[name] = getattr(self.image, name) if part is None else part.apply()
        return MetadataImage(offset, epoch, **parts)

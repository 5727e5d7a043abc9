"""Client quotas by entity: users, client ids, addresses, and their defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.layers import changed, merged
from penstock.protocol.generated.metadata_records import (
    ClientQuotaRecord,
    EntityData,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


Entity = tuple[tuple[str, str | None], ...]
"""(type, name) pairs, sorted by type; a name of None is the default for its type."""


class ClientQuotasImage:
    __slots__ = ("entities",)

    def __init__(self, entities: Mapping[Entity, Mapping[str, float]] | None = None) -> None:
        self.entities: Mapping[Entity, Mapping[str, float]] = (
            entities if entities is not None else {}
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClientQuotasImage) and self.entities == other.entities

    __hash__ = None  # type: ignore[assignment]

    def records(self) -> Iterator[ClientQuotaRecord]:
        for entity, quotas in self.entities.items():
            for key, value in quotas.items():
                yield ClientQuotaRecord(
                    entity=[EntityData(entity_type=t, entity_name=n) for t, n in entity],
                    key=key,
                    value=value,
                    remove=False,
                )


class ClientQuotasDelta:
    """Quotas that changed, by entity; None takes one away."""

    __slots__ = ("changed", "image")

    def __init__(self, image: ClientQuotasImage) -> None:
        self.image = image
        self.changed: dict[Entity, dict[str, float | None]] = {}

    def quota(self, record: ClientQuotaRecord) -> None:
        entity = tuple(
            sorted(((e.entity_type, e.entity_name) for e in record.entity), key=lambda e: e[0])
        )
        value = None if record.remove else record.value
        self.changed.setdefault(entity, {})[record.key] = value

    def apply(self) -> ClientQuotasImage:
        entities = self.image.entities
        altered = {
            entity: merged(entities.get(entity, {}), changes) or None
            for entity, changes in self.changed.items()
        }
        return ClientQuotasImage(changed(entities, altered))

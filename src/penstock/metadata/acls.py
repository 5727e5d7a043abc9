"""Access control entries by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.metadata.layers import changed
from penstock.protocol.generated.metadata_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Acl(NamedTuple):
    """Who may or may not do what to which resource, in Kafka's numbers."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def record(self, acl_id: bytes) -> AccessControlEntryRecord:
        """The entry as the log holds it."""
        return AccessControlEntryRecord(
            id=acl_id,
            resource_type=self.resource_type,
            resource_name=self.resource_name,
            pattern_type=self.pattern_type,
            principal=self.principal,
            host=self.host,
            operation=self.operation,
            permission_type=self.permission,
        )


class AclsImage:
    """Entries by id, and the ids of each entry."""

    __slots__ = ("by_id", "ids")

    def __init__(
        self,
        by_id: Mapping[bytes, Acl] | None = None,
        ids: Mapping[Acl, tuple[bytes, ...]] | None = None,
    ) -> None:
        self.by_id: Mapping[bytes, Acl] = by_id if by_id is not None else {}
        self.ids: Mapping[Acl, tuple[bytes, ...]] = ids if ids is not None else _ids(self.by_id)
        """Which ids say the same: one as a rule, but nothing in a log forbids two."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AclsImage) and self.by_id == other.by_id

    __hash__ = None  # type: ignore[assignment]

    def records(self) -> Iterator[AccessControlEntryRecord]:
        for acl_id, acl in self.by_id.items():
            yield acl.record(acl_id)


def _ids(by_id: Mapping[bytes, Acl]) -> Mapping[Acl, tuple[bytes, ...]]:
    ids: dict[Acl, tuple[bytes, ...]] = {}
    for acl_id, acl in by_id.items():
        ids[acl] = (*ids.get(acl, ()), acl_id)
    return ids


class AclsDelta:
    """Entries that came (an Acl) or went (None), by id."""

    __slots__ = ("changed", "image")

    def __init__(self, image: AclsImage) -> None:
        self.image = image
        self.changed: dict[bytes, Acl | None] = {}

    def entry(self, record: AccessControlEntryRecord) -> None:
        self.changed[record.id] = Acl(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )

    def remove(self, record: RemoveAccessControlEntryRecord) -> None:
        self.changed[record.id] = None

    def apply(self) -> AclsImage:
        return AclsImage(
            changed(self.image.by_id, self.changed), changed(self.image.ids, self._ids())
        )

    def _ids(self) -> dict[Acl, tuple[bytes, ...] | None]:
        """The ids of each entry that came or went; None where none is left."""
        ids: dict[Acl, tuple[bytes, ...]] = {}
        for acl_id, acl in self.changed.items():
            before = self.image.by_id.get(acl_id)
            if before is not None:
                held = ids.get(before, self.image.ids.get(before, ()))
                ids[before] = tuple(each for each in held if each != acl_id)
            if acl is not None:
                ids[acl] = (*ids.get(acl, self.image.ids.get(acl, ())), acl_id)
        return {acl: held or None for acl, held in ids.items()}

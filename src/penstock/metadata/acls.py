"""Access control entries by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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


class AclsImage:
    __slots__ = ("by_id",)

    def __init__(self, by_id: Mapping[bytes, Acl] | None = None) -> None:
        self.by_id: Mapping[bytes, Acl] = by_id if by_id is not None else {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AclsImage) and self.by_id == other.by_id

    __hash__ = None  # type: ignore[assignment]

    def records(self) -> Iterator[AccessControlEntryRecord]:
        for acl_id, acl in self.by_id.items():
            yield AccessControlEntryRecord(
                id=acl_id,
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )


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
        merged = {**self.image.by_id, **self.changed}
        return AclsImage({i: acl for i, acl in merged.items() if acl is not None})

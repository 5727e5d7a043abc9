"""Which entries somebody means, who asks about ACLs or takes some away. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.metadata.acls import Acl
from penstock.model.operations import Operation
from penstock.model.resources import WILDCARD, PatternType, Permission, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.metadata.acls import AclsImage

_KINDS = frozenset(map(int, ResourceType)) - {ResourceType.UNKNOWN}
_PATTERNS = frozenset(map(int, PatternType)) - {PatternType.UNKNOWN}
_OPERATIONS = frozenset(map(int, Operation)) - {Operation.UNKNOWN}
_PERMISSIONS = frozenset(map(int, Permission)) - {Permission.UNKNOWN}
_STORED = (PatternType.LITERAL, PatternType.PREFIXED)


class AclFilter(NamedTuple):
    """Each part in Kafka's numbers and words: ANY, or None, is every one.

    The pattern type MATCH finds all entries that apply to a resource of the name: those for the
    name itself, for every name, and for how it begins.
    """

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @property
    def unknown_pattern(self) -> bool:
        """Whether it asks for a kind of resource or of pattern that does not exist."""
        return self.resource_type not in _KINDS or self.pattern_type not in _PATTERNS

    @property
    def unknown_entry(self) -> bool:
        """Whether it asks for an operation or a permission that does not exist."""
        return self.operation not in _OPERATIONS or self.permission not in _PERMISSIONS

    @property
    def exact(self) -> Acl | None:
        """The one entry that it can mean; None if it can mean several."""
        acl = Acl(*self)  # type: ignore[arg-type]  # where a word is missing there is no entry
        if None in acl or acl.pattern_type not in _STORED:
            return None
        indefinite = (
            acl.resource_type == ResourceType.ANY
            or acl.operation == Operation.ANY
            or acl.permission == Permission.ANY
        )
        return None if indefinite else acl

    def found(self, acls: AclsImage) -> Iterator[tuple[bytes, Acl]]:
        """The entries of an image that it means, with their ids."""
        exact = self.exact
        if exact is not None:
            return ((acl_id, exact) for acl_id in acls.ids.get(exact, ()))
        matches = self.matcher()
        return ((acl_id, acl) for acl_id, acl in acls.by_id.items() if matches(acl))

    def matcher(self) -> Callable[[Acl], bool]:
        """A test for one entry after the other. Whatever is ANY is not even looked at."""
        wanted: list[tuple[int, Any]] = [
            (at, value)
            for at, value, every in (
                (0, self.resource_type, ResourceType.ANY),
                (3, self.principal, None),
                (4, self.host, None),
                (5, self.operation, Operation.ANY),
                (6, self.permission, Permission.ANY),
            )
            if value != every
        ]
        if self.pattern_type in _STORED:
            wanted.append((2, self.pattern_type))
        covers = self.pattern_type == PatternType.MATCH and self.resource_name is not None
        if self.resource_name is not None and not covers:
            wanted.append((1, self.resource_name))

        def matches(acl: Acl) -> bool:
            for at, value in wanted:
                if acl[at] != value:
                    return False
            return not covers or _applies(acl, self.resource_name or "")

        return matches


def _applies(acl: Acl, name: str) -> bool:
    """Whether an entry is about a resource of this name."""
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)

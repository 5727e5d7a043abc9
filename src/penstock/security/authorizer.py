"""Whether a principal may do something: Kafka's rules over the ACLs of the metadata image.

Any entry that denies beats all that allow. Super users pass before any entry is read. What no entry
names is refused, unless allow.everyone.if.no.acl.found says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.operations import Operation
from penstock.model.resources import WILDCARD, PatternType, Permission, ResourceType
from penstock.security.principal import Principal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.metadata.acls import Acl, AclsImage

ANSWERS_MAX = 100_000
"""Answers that are remembered, until the entries change."""

_IMPLY_DESCRIBE = frozenset(
    {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
)
_IMPLY_DESCRIBE_CONFIGS = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})


class Authorizer:
    """Answers from the entries of one image; `on_image` brings the next."""

    def __init__(self, super_users: Iterable[Principal], open_without_entries: bool) -> None:
        self._super_users = frozenset(f"{each.kind}:{each.name}" for each in super_users)
        self._open_without_entries = open_without_entries
        self._entries: tuple[Acl, ...] = ()
        self._answers: dict[tuple[str, str, int, int, str], bool] = {}
        self.edition = 0
        """Rises with each change: who remembers answers knows that they are old."""

    def on_image(self, acls: AclsImage) -> None:
        """Decide by these entries from now on."""
        self._entries = tuple(acls.by_id.values())
        self._answers.clear()
        self.edition += 1

    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Whether `principal`, coming from `host`, may do `operation` to a resource."""
        who = f"{principal.kind}:{principal.name}"
        if who in self._super_users:
            return True
        question = (who, host, int(operation), int(kind), name)
        answer = self._answers.get(question)
        if answer is None:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            answer = self._answers[question] = self._decide(who, host, operation, kind, name)
        return answer

    def allows_some(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Whether there is any name, of a resource that is there or not, for which it may."""
        names = {each.resource_name for each in self._entries if each.resource_type == kind}
        return any(self.allows(principal, host, operation, kind, name) for name in names)

    def _decide(
        self, who: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        found = [each for each in self._entries if _covers(each, kind, name)]
        if not found:
            return self._open_without_entries
        allowed = False
        for acl in found:
            if acl.principal not in (who, "User:*") or acl.host not in (host, WILDCARD):
                continue
            if acl.permission == Permission.DENY:
                if acl.operation in (operation, Operation.ALL):
                    return False
            elif acl.operation in (operation, Operation.ALL) or _implies(acl.operation, operation):
                allowed = True
        return allowed


def _covers(acl: Acl, kind: ResourceType, name: str) -> bool:
    if acl.resource_type != kind:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


def _implies(granted: int, operation: Operation) -> bool:
    if operation is Operation.DESCRIBE:
        return granted in _IMPLY_DESCRIBE
    if operation is Operation.DESCRIBE_CONFIGS:
        return granted in _IMPLY_DESCRIBE_CONFIGS
    return False

"""Whether a principal may do something: Kafka's rules over the ACLs of the metadata image.

Any entry that denies beats all that allow. Super users pass before any entry is read. What no entry
names is refused, unless allow.everyone.if.no.acl.found says otherwise. Until the log has been read
up to what the cluster has agreed on, only super users pass: an old log may still allow what was
forbidden since.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from penstock.metadata.acls import AclsImage
from penstock.model.resources import WILDCARD
from penstock.security.entries import ALL_OPERATIONS, Entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.metadata.acls import AclsDelta
    from penstock.model.operations import Operation
    from penstock.model.resources import ResourceType
    from penstock.security.principal import Principal

ANSWERS_MAX = 20_000
"""Answers that are remembered, until the entries change."""

NAME_MAX = 256
"""Clients choose the names that they ask about: answers about longer ones are not remembered."""

_ANY_NAME = "hardcode"
"""A name that entries about particular resources do not mean; Kafka takes the same one."""


class Authorizer:
    """Answers from the entries of one image; `on_image` brings the next."""

    def __init__(self, super_users: Iterable[Principal], open_without_entries: bool) -> None:
        self._super_users = frozenset(f"{each.kind}:{each.name}" for each in super_users)
        self._open_without_entries = open_without_entries
        self._image = AclsImage()
        self._entries = Entries(mentions=open_without_entries)
        self._answers: dict[tuple[str, str, int, str], int] = {}
        self._some_answers: dict[tuple[str, str, Operation, ResourceType], bool] = {}
        self._ready = False
        self.loaded: Callable[[], bool] = lambda: True
        """Whether the log has been read; asked until it says so. Set by who assembles the node."""
        self._known: WeakValueDictionary[int, set[str]] = WeakValueDictionary()
        self._numbers = count()

    @property
    def ready(self) -> bool:
        """Whether entries are looked at; until then only super users pass."""
        self._ready = self._ready or self.loaded()
        return self._ready

    def on_image(self, acls: AclsImage, delta: AclsDelta | None = None) -> None:
        """Decide by these entries from now on; a `delta` that begins where we are spares work."""
        if acls is self._image:
            return
        if delta is not None and delta.image is self._image:
            for acl_id, acl in delta.changed.items():
                before = self._image.by_id.get(acl_id)
                if before is not None:
                    self._entries.remove(before)
                if acl is not None:
                    self._entries.add(acl)
        else:
            self._entries = Entries(acls.by_id.values(), mentions=self._open_without_entries)
        self._image = acls
        self._answers.clear()
        self._some_answers.clear()
        for known in self._known.values():
            known.clear()

    def memory(self) -> set[str]:
        """An empty set, for who asks with each batch to remember allowed names in: it is empty
        again whenever an entry has changed."""
        known: set[str] = set()
        self._known[next(self._numbers)] = known
        return known

    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Whether `principal`, coming from `host`, may do `operation` to a resource."""
        return bool(self.allowed(principal, host, kind, name) >> operation & 1)

    def allowed(self, principal: Principal, host: str, kind: ResourceType, name: str) -> int:
        """All that `principal`, coming from `host`, may do to a resource, as a bit field."""
        who = f"{principal.kind}:{principal.name}"
        if who in self._super_users:
            return ALL_OPERATIONS
        if not self._ready and not self.ready:
            return 0
        question = (who, host, kind, name)
        answer = self._answers.get(question)
        if answer is None:
            answer = self._decide(who, host, kind, name)
            if len(name) <= NAME_MAX:
                if len(self._answers) >= ANSWERS_MAX:
                    self._answers.clear()
                self._answers[question] = answer
        return answer

    def allows_some(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Whether there is any name, of a resource that is there or not, for which it may."""
        if self.allows(principal, host, operation, kind, _ANY_NAME):
            return True
        if not self.ready:
            return False
        question = (f"{principal.kind}:{principal.name}", host, operation, kind)
        answer = self._some_answers.get(question)
        if answer is None:
            if len(self._some_answers) >= ANSWERS_MAX:
                self._some_answers.clear()
            answer = self._some_answers[question] = self._some(*question)
        return answer

    def _decide(self, who: str, host: str, kind: ResourceType, name: str) -> int:
        if self._open_without_entries and not self._entries.mention(kind, name):
            return ALL_OPERATIONS
        verdict = self._entries.verdict(who, host, kind, name)
        return verdict.allowed & ~verdict.denied

    def _some(self, who: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Whether a pattern allows it that is not wholly under one that denies it."""
        bit = 1 << operation
        literal: set[str] = set()
        prefixed: set[str] = set()
        denied_literal: set[str] = set()
        denied_prefixed: set[str] = set()
        for patterns in self._entries.about(who, kind):
            for found, allowed, denied in (
                (patterns.literal, literal, denied_literal),
                (patterns.prefixed, prefixed, denied_prefixed),
            ):
                for name, hosts in found.items():
                    verdict = hosts.verdict(host)
                    if verdict.allowed & bit:
                        allowed.add(name)
                    if verdict.denied & bit:
                        denied.add(name)
        if WILDCARD in denied_literal:
            return False
        if WILDCARD in literal:
            return True
        candidates = (literal - denied_literal) | prefixed
        return any(
            all(name[:end] not in denied_prefixed for end in range(1, len(name) + 1))
            for name in candidates
        )

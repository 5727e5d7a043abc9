"""What the members of a group want, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.coordination.group.consumer.member import Member


class Resolved(NamedTuple):
    """The topics that a regular expression stood for when it was last looked at."""

    topics: frozenset[str]
    version: int
    """The offset of the metadata that it was matched against."""
    timestamp: int


class Subscriptions:
    """How many members want a topic by name, or use a regular expression."""

    __slots__ = ("names", "regexes", "resolved")

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.regexes: dict[str, int] = {}
        self.resolved: dict[str, Resolved] = {}

    def replace(self, old: Member | None, new: Member | None) -> None:
        """A member changed, came (no old one) or went (no new one)."""
        if old and new and old.topics == new.topics and old.regex == new.regex:
            return
        if old is not None:
            _count(self.names, old.topics, -1)
            _count(self.regexes, (old.regex,) if old.regex else (), -1)
        if new is not None:
            _count(self.names, new.topics, 1)
            _count(self.regexes, (new.regex,) if new.regex else (), 1)

    def after(self, changes: Iterable[tuple[Member | None, Member | None]]) -> Subscriptions:
        """The same once some members have changed; unused regular expressions are forgotten."""
        after = Subscriptions()
        after.names, after.regexes = self.names.copy(), self.regexes.copy()
        for old, new in changes:
            after.replace(old, new)
        gone = self.regexes.keys() - after.regexes.keys()
        after.resolved = {it: found for it, found in self.resolved.items() if it not in gone}
        return after

    def with_resolved(self, found: Mapping[str, Resolved]) -> Subscriptions:
        """The same once regular expressions stand for other topics."""
        after = self.after(())
        after.resolved |= found
        return after

    @property
    def topics(self) -> set[str]:
        """All topics that anybody wants."""
        return set(self.names).union(*(it.topics for it in self.resolved.values()))

    def wants(self, topic: str) -> bool:
        """Whether anybody wants the topic."""
        return topic in self.names or any(topic in it.topics for it in self.resolved.values())

    def topics_of(self, member: Member) -> frozenset[str]:
        """The topics that a member wants, as far as is known."""
        found = self.resolved.get(member.regex) if member.regex else None
        return member.topics if found is None else member.topics | found.topics


def _count(counts: dict[str, int], names: Iterable[str], step: int) -> None:
    for name in names:
        left = counts.get(name, 0) + step
        if left > 0:
            counts[name] = left
        else:
            counts.pop(name, None)

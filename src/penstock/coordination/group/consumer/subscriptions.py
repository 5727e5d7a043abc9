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
    """How many members want the same topics by name, or use a regular expression."""

    __slots__ = ("names", "regexes", "resolved", "wishes")

    def __init__(self) -> None:
        self.wishes: dict[frozenset[str], tuple[frozenset[str], int]] = {}
        """Names that members give, each with itself and how many give exactly these."""
        self.names: dict[str, int] = {}
        """In how many of the wishes a name is."""
        self.regexes: dict[str, int] = {}
        self.resolved: dict[str, Resolved] = {}

    def shared(self, topics: frozenset[str]) -> frozenset[str]:
        """The same names, as others have given them: a thousand members then keep one set."""
        return self.wishes.get(topics, (topics,))[0]

    def replace(self, old: Member | None, new: Member | None) -> None:
        """A member changed, came (no old one) or went (no new one)."""
        if old and new and same_names(old.topics, new.topics) and old.regex == new.regex:
            return
        if old is not None:
            self._count_wish(old.topics, -1)
            _count(self.regexes, (old.regex,) if old.regex else (), -1)
        if new is not None:
            self._count_wish(new.topics, 1)
            _count(self.regexes, (new.regex,) if new.regex else (), 1)

    def _count_wish(self, topics: frozenset[str], step: int) -> None:
        if not topics:
            return
        first, count = self.wishes.get(topics, (topics, 0))
        if count == 0:
            _count(self.names, topics, 1)
        if count + step > 0:
            self.wishes[first] = first, count + step
        else:
            self.wishes.pop(first, None)
            _count(self.names, topics, -1)

    def after(self, changes: Iterable[tuple[Member | None, Member | None]]) -> Subscriptions:
        """The same once some members have changed; unused regular expressions are forgotten."""
        after = Subscriptions()
        after.wishes, after.names = self.wishes.copy(), self.names.copy()
        after.regexes = self.regexes.copy()
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
        if found is None:
            return member.topics
        return member.topics | found.topics if member.topics else found.topics


def same_names(some: frozenset[str], others: frozenset[str]) -> bool:
    """Whether they are equal. Python compares a set even with itself name by name."""
    return some is others or some == others


def _count(counts: dict[str, int], names: Iterable[str], step: int) -> None:
    for name in names:
        left = counts.get(name, 0) + step
        if left > 0:
            counts[name] = left
        else:
            counts.pop(name, None)

"""Which partitions share coordinators keep state for, as far as a group knows.

A partition is first initializing, then initialized: only then is it assigned. A topic whose state
is being thrown away is deleting. All of it is one record, written anew with each change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class Topic(NamedTuple):
    """Some partitions of a topic, with the name that it had."""

    name: str
    partitions: frozenset[int]


Topics = Mapping[bytes, Topic]

UNKNOWN_NAME = "<UNKNOWN>"
"""What Kafka writes for a topic that is gone."""


class Readiness(NamedTuple):
    """One version of it; a change makes another one."""

    initializing: Topics
    initialized: Topics
    deleting: Mapping[bytes, str]
    """Names by id."""

    def beginning(self, topics: Topics) -> Readiness:
        """State is asked for. What is begun anew is not deleted."""
        return self._replace(
            initializing=union(self.initializing, topics),
            deleting={it: name for it, name in self.deleting.items() if it not in topics},
        )

    def begun(self, topics: Topics) -> Readiness:
        """State is there."""
        return self._replace(
            initializing=without(self.initializing, topics),
            initialized=union(self.initialized, topics),
        )

    def failed(self, topics: Topics) -> Readiness:
        """There is no state for these after all."""
        return self._replace(initializing=without(self.initializing, topics))

    def forgetting(self, topics: Mapping[bytes, str]) -> Readiness:
        """The state of these topics is to be thrown away."""
        return Readiness(
            self.initializing,
            {it: topic for it, topic in self.initialized.items() if it not in topics},
            {**self.deleting, **topics},
        )

    def forgotten(self, topic_ids: Collection[bytes]) -> Readiness:
        """The state of these topics was thrown away."""
        return self._replace(
            deleting={it: name for it, name in self.deleting.items() if it not in topic_ids}
        )

    def without_topics(self, topic_ids: Collection[bytes]) -> Readiness:
        """The topics themselves are gone, and share coordinators know that, too."""
        return Readiness(
            {it: topic for it, topic in self.initializing.items() if it not in topic_ids},
            {it: topic for it, topic in self.initialized.items() if it not in topic_ids},
            {it: name for it, name in self.deleting.items() if it not in topic_ids},
        )

    def mentions(self, topic_ids: Iterable[bytes]) -> bool:
        """Whether any of these topics is in it."""
        return any(
            it in self.initializing or it in self.initialized or it in self.deleting
            for it in topic_ids
        )


NOTHING_READY = Readiness({}, {}, {})


def union(some: Topics, others: Topics) -> Topics:
    """The partitions of both."""
    result = dict(some)
    for topic_id, topic in others.items():
        known = result.get(topic_id)
        if known is not None:
            topic = topic._replace(partitions=known.partitions | topic.partitions)
        result[topic_id] = topic
    return result


def without(some: Topics, others: Topics) -> Topics:
    """The partitions that are not among the others; no topic without partitions."""
    result = {}
    for topic_id, topic in some.items():
        other = others.get(topic_id)
        left = topic.partitions if other is None else topic.partitions - other.partitions
        if left:
            result[topic_id] = topic._replace(partitions=left)
    return result


def only(some: Topics, others: Topics) -> Topics:
    """The partitions that are among the others as well."""
    return without(some, without(some, others))

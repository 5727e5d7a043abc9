"""What the consumer groups of a shard remember of the cluster around them. In memory only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.metadata.configs import GROUP
from penstock.metadata.image import EMPTY
from penstock.model.config.groups import effective_group_config

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.coordination.group.settings import GroupSettings
    from penstock.metadata.image import MetadataImage

_IDS_MAX = 256
"""Different subscriptions whose topics' ids are kept, in a shard."""

_NO_IDS: frozenset[bytes] = frozenset()


class Pace(NamedTuple):
    """How often members of a group report, and how long things may take."""

    session_ms: int
    heartbeat_ms: int
    assignment_ms: int
    """The least time between two targets."""


class Surroundings:
    """The cluster's metadata as consumer groups look at it, with what is dear to compute kept."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._paces: dict[str, Pace] = {}
        self.image: MetadataImage = EMPTY
        self.hashes: dict[str, int] = {}
        """Of topics, by name; see `hashing`."""
        self._ids: dict[frozenset[str], tuple[frozenset[str], frozenset[bytes]]] = {}
        """Of the topics in `_ids_of`, for the names that were asked for last."""
        self._ids_of = EMPTY.topics
        self.newest_topics_at = -1
        """The offset of the metadata in which topics were last created."""

    def pace(self, group_id: str) -> Pace:
        """As the group's own configuration says, or else the node's."""
        pace = self._paces.get(group_id)
        if pace is None:
            pace = self._paces[group_id] = self._read_pace(group_id)
        return pace

    def forget_paces(self, group_ids: Iterable[str]) -> None:
        """Their configuration changed, or they are gone."""
        for group_id in group_ids:
            self._paces.pop(group_id, None)

    def forget_all_paces(self) -> None:
        """Any configuration may have changed."""
        self._paces.clear()

    def _read_pace(self, group_id: str) -> Pace:
        settings = self._settings
        overrides = self.image.configs.of(GROUP, group_id)
        if not overrides or settings.node is None:
            return Pace(
                settings.consumer_session_timeout_ms,
                settings.consumer_heartbeat_interval_ms,
                settings.consumer_assignment_interval_ms,
            )
        config = effective_group_config(overrides, settings.node)
        return Pace(
            cast(int, config["consumer.session.timeout.ms"]),
            cast(int, config["consumer.heartbeat.interval.ms"]),
            cast(int, config["consumer.assignment.interval.ms"]),
        )

    def topic_ids(self, names: frozenset[str]) -> frozenset[bytes]:
        """The ids of those topics that exist."""
        topics = self.image.topics
        if self._ids_of is not topics:
            self._ids.clear()
            self._ids_of = topics
        names_known, known = self._ids.get(names, (None, _NO_IDS))
        if names_known is names:
            return known
        if names_known is None:
            by_name = topics.by_name
            found = [by_name.get(name) for name in names]
            known = frozenset([topic.id for topic in found if topic is not None])
            if len(self._ids) >= _IDS_MAX:
                self._ids.clear()
        else:
            del self._ids[names_known]  # equal sets are found in no time if they are the same one
        self._ids[names] = names, known
        return known

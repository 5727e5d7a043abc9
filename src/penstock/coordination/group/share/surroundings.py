"""What the share groups of a shard remember of the cluster around them. In memory only."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.coordination.group.consumer.surroundings import Pace
from penstock.metadata.configs import GROUP
from penstock.model.config.groups import effective_group_config

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.coordination.group.settings import GroupSettings
    from penstock.metadata.image import MetadataImage


class ShareSurroundings:
    """How fast groups go, and which topics are gone. The cluster itself is in `shard.consumers`."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._paces: dict[str, Pace] = {}
        self.gone_topics: set[bytes] = set()
        """Topics that were deleted and that groups may still mention."""

    def pace(self, group_id: str, image: MetadataImage) -> Pace:
        """As the group's own configuration says, or else the node's."""
        pace = self._paces.get(group_id)
        if pace is None:
            pace = self._paces[group_id] = self._read(group_id, image)
        return pace

    def forget_paces(self, group_ids: Iterable[str]) -> None:
        """Their configuration changed, or they are gone."""
        for group_id in group_ids:
            self._paces.pop(group_id, None)

    def forget_all_paces(self) -> None:
        """Any configuration may have changed."""
        self._paces.clear()

    def _read(self, group_id: str, image: MetadataImage) -> Pace:
        share = self._settings.share
        overrides = image.configs.of(GROUP, group_id)
        if not overrides or self._settings.node is None:
            return Pace(share.session_ms, share.heartbeat_ms, share.assignment_ms)
        config = effective_group_config(overrides, self._settings.node)
        return Pace(
            cast(int, config["share.session.timeout.ms"]),
            cast(int, config["share.heartbeat.interval.ms"]),
            cast(int, config["share.assignment.interval.ms"]),
        )

"""What the node's configuration, and a group's own, say to streams groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.metadata.configs import GROUP
from penstock.metadata.image import EMPTY
from penstock.model.config.groups import effective_group_config

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.metadata.image import MetadataImage
    from penstock.model.config.node import NodeConfig
    from penstock.model.ids import Millis

_KEYS = (
    "streams.session.timeout.ms",
    "streams.heartbeat.interval.ms",
    "streams.assignment.interval.ms",
    "streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas",
)
"""Of groups, in the order of a pace; the node's own keys have "group." before them."""


class Pace(NamedTuple):
    """How often members of a group report, how long things may take, and how safe state is."""

    session_ms: int = 45_000
    heartbeat_ms: int = 5_000
    assignment_ms: int = 1_000
    """The least time between two targets."""
    delay_ms: int = 3_000
    """How long a group waits for more members before its first target."""
    standbys: int = 0
    """Copies of each task's state besides the active one."""


class StreamsSettings(NamedTuple):
    """Bounds and defaults of one node."""

    size_max: int = 2_147_483_647
    pace: Pace = Pace()

    @classmethod
    def of(cls, config: NodeConfig) -> StreamsSettings:
        """As the node's configuration says."""
        number = config.get_int
        pace = Pace(*(number(f"group.{key}") for key in _KEYS))
        return cls(number("group.streams.max.size"), pace)


class StreamsSurroundings:
    """What the streams groups of a shard remember of the cluster around them. In memory only."""

    def __init__(self, settings: StreamsSettings, node: NodeConfig | None) -> None:
        self.settings = settings
        self._node = node
        self._paces: dict[str, Pace] = {}
        self.image: MetadataImage = EMPTY
        self.delayed_until: dict[str, Millis] = {}
        """Of groups that have just begun: when their first target may be computed."""

    def pace(self, group_id: str) -> Pace:
        """As the group's own configuration says, or else the node's."""
        pace = self._paces.get(group_id)
        if pace is None:
            pace = self._paces[group_id] = self._read_pace(group_id)
        return pace

    def forget(self, group_id: str) -> None:
        """The group is gone."""
        self._paces.pop(group_id, None)
        self.delayed_until.pop(group_id, None)

    def forget_paces(self, group_ids: Iterable[str]) -> None:
        """Their configuration changed."""
        for group_id in group_ids:
            self._paces.pop(group_id, None)

    def forget_all_paces(self) -> None:
        """Any configuration may have changed."""
        self._paces.clear()

    def _read_pace(self, group_id: str) -> Pace:
        overrides = self.image.configs.of(GROUP, group_id)
        if not overrides or self._node is None:
            return self.settings.pace
        config = effective_group_config(overrides, self._node)
        return Pace(*(cast(int, config[key]) for key in _KEYS))

"""One partition of `__consumer_offsets`: its groups, its offsets, and who replays which record.

Requests enter through free functions of the folders beside this file; they take the shard, the
moment and the effects, and live where their protocol lives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.group import Group
    from penstock.coordination.group.offsets.quick import QuickReplay
    from penstock.coordination.group.settings import GroupSettings
    from penstock.metadata.image import MetadataImage
    from penstock.platform.chance import Chance
    from penstock.protocol.message import Message

Replay = Callable[["GroupShard", int, Any, Any, int], None]
"""(shard, offset, key, value or None, producer id or -1): change the shard as a record says."""

OnTimer = Callable[["GroupShard", Any, "Moment", "Effects"], None]
"""(shard, the rest of the timer's key, moment, effects)"""

_REPLAYERS = ("offsets", "classic", "consumer", "share", "streams")
"""Folders whose `replay` module has a table REPLAY: type of record to function.

Their `timers` module has a table TIMERS: first part of a timer's key to function; all timers of a
folder are tuples that begin with a name of its own.
"""


class GroupShard:
    """The groups that hash to one partition."""

    def __init__(self, index: int, settings: GroupSettings, chance: Chance) -> None:
        from penstock.coordination.group.consumer.surroundings import Surroundings
        from penstock.coordination.group.offsets.table import OffsetTable
        from penstock.coordination.group.share.surroundings import ShareSurroundings
        from penstock.coordination.group.streams.settings import StreamsSurroundings

        self.index = index
        self.settings = settings
        self.chance = chance
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetTable()
        self.consumers = Surroundings(settings)
        self.shares = ShareSurroundings(settings)
        self.streams = StreamsSurroundings(settings.streams, settings.node)
        self.image: MetadataImage | None = None
        """The newest one; None only before the node has any."""
        self._replay: dict[int, Replay] = {}
        self._timers: dict[str, OnTimer] = {}
        for folder in _REPLAYERS:
            here = f"penstock.coordination.group.{folder}"
            self._replay |= import_module(f"{here}.replay").REPLAY
            self._timers |= import_module(f"{here}.timers").TIMERS

    def find(self, group_id: str, kind: type[Any]) -> Any:
        """The group if it is of this class, else GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        return group if isinstance(group, kind) else ErrorCode.GROUP_ID_NOT_FOUND

    # -- what the runtime asks for ----------------------------------------------------------------

    def replay(self, offset: int, key: Message, value: Message | None, producer_id: int) -> None:
        replay = self._replay.get(key.API_KEY)
        if replay is not None:  # records of a kind of group that is not built are kept, unread
            replay(self, offset, key, value, producer_id)

    def quick_replay(self) -> QuickReplay:
        """For loading: replays the commonest records in less time."""
        from penstock.coordination.group.offsets.quick import QuickReplay

        return QuickReplay(self)

    def replay_end_txn(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        self.offsets.end_txn(producer_id, producer_epoch, is_commit)

    def on_loaded(self, at: Moment, out: Effects) -> None:
        for folder in _REPLAYERS:
            import_module(f"penstock.coordination.group.{folder}.timers").on_loaded(self, at, out)

    def on_timer(self, key: Hashable, at: Moment, out: Effects) -> None:
        assert isinstance(key, tuple)
        self._timers[key[0]](self, key, at, out)

    def on_image(self, image: Any, delta: Any, at: Moment, out: Effects) -> None:
        from penstock.coordination.group.consumer.timers import on_image
        from penstock.coordination.group.offsets.timers import on_image as forget_deleted
        from penstock.coordination.group.share.timers import on_image as on_share_image
        from penstock.coordination.group.streams.timers import on_image as on_streams_image

        self.image = image
        on_image(self, image, delta, at, out)
        on_share_image(self, image, delta, at, out)
        on_streams_image(self, image, delta, at, out)
        forget_deleted(self, image, delta, at, out)

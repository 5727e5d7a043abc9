"""The asking side of a fetch session: a leader is told what changed, and remembers the rest. Pure.

`server.fetch_sessions` is the answering side. A session begins with epoch 0, which names every
partition; after that a fetch names those whose position moved, those that are new and those that
are left. A leader that has no room for a session, or lost it, is told everything each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.model.errors import ErrorCode
from penstock.replica.fetching import Ask

EPOCH_LAST = 2_147_483_647

Key = tuple[bytes, int]
"""A partition by its topic's id and its index."""


class LeaderSession:
    """What one leader was told over one connection."""

    __slots__ = ("epoch", "id", "told")

    def __init__(self) -> None:
        self.id = 0
        self.epoch = 0
        self.told: dict[Key, Ask] = {}
        """Every partition of the session, with what was last asked of it. The longest without
        news comes first: so, without a session too, none is starved by busier ones."""

    def plan(
        self, changed: Mapping[Key, Ask], left: Iterable[Key]
    ) -> tuple[Mapping[Key, Ask], list[Key]]:
        """What the next fetch names, and what it tells the leader to forget."""
        told = self.told
        # Who left and came back must not be forgotten: the leader would do that last.
        forgotten = [key for key in left if key not in changed and told.pop(key, None) is not None]
        for key, ask in changed.items():
            told.pop(key, None)
            told[key] = ask
        if self.epoch == 0:
            return told, []
        return changed, forgotten

    def answered(self, session_id: int, error: int) -> bool:
        """Note the leader's answer; False if it says nothing about the partitions."""
        if error:
            if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.id = 0
            self.epoch = 0
            return False
        if session_id == 0:
            self.id = self.epoch = 0  # no room, or nothing left to remember
        else:
            self.id = session_id
            self.epoch = 1 if self.epoch == EPOCH_LAST else self.epoch + 1
        return True

    def lost(self) -> None:
        """Nobody knows what the leader heard: close the session, and begin a new one."""
        self.epoch = 0

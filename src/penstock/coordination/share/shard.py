"""One partition of `__share_group_state`: the keys that hash to it.

A key's state is a snapshot and the updates after it. Whoever loads the log finds the newest
snapshot of each key and what followed; everything before the oldest of these snapshots is waste,
and is cut off from time to time, or when there is much of it: nobody is served while a shard loads.
Keys that nobody writes would hold on to it for ever: their snapshots are written again when they
are old, or lie far back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.coordination.share.state import ShareKey, ShareState, snapshot_key
from penstock.model.ids import Millis
from penstock.protocol.generated.share_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.share.settings import ShareSettings
    from penstock.metadata.image import MetadataImage
    from penstock.protocol.message import Message

KEYS_MAX = 50_000
"""Keys of one shard: with Kafka's 50 shards, some gigabytes if one node leads them all."""

RECORDS_PER_STEP = 500
"""Snapshots and tombstones that are written before requests get their turn."""

LONG = 50_000
"""Records of a log after which it is cut ahead of time: so many are loaded within a second."""

RETRY_MS = 1_000
"""After the log did not take records: it lacks replicas, or the shard moves."""

COLD = ("share cold",)
PRUNE = ("share prune",)
FORGET = ("share forget",)


class Prune(NamedTuple):
    """An errand: nobody needs what lies below this offset of the shard's partition."""

    offset: int


class ShareShard:
    """The states of one partition."""

    def __init__(self, index: int, settings: ShareSettings) -> None:
        self.index = index
        self.settings = settings
        self.states: dict[ShareKey, ShareState] = {}
        self.image: MetadataImage | None = None
        """The newest one; None only before the node has any."""
        self._end = 0
        """After the last record that was replayed."""
        self._pruned = 0
        self._looked = 0
        """The end when it was last looked whether something could be cut off."""
        self._timers: dict[Hashable, Callable[[Moment, Effects], None]] = {
            COLD: self._write_cold_again,
            PRUNE: self._prune,
            FORGET: self._forget_deleted,
        }

    def knows(self, key: ShareKey) -> bool:
        """Whether there is such a partition in the cluster."""
        if self.image is None:
            return False
        topic = self.image.topics.by_id.get(key.topic_id)
        return topic is not None and key.partition in topic.partitions

    def stay_short(self, at: Moment, out: Effects) -> None:
        """After each write: look soon what can be cut off, if the log has become long."""
        if self._end - self._looked >= self._long:
            out.timer(PRUNE, at.mono)

    @property
    def _long(self) -> int:
        # Snapshots of all keys have room in it several times, or writing them would never end.
        return max(LONG, 4 * len(self.states))

    # -- what the runtime asks for ----------------------------------------------------------------

    def replay(self, offset: int, key: Message, value: Message | None, producer_id: int) -> None:  # noqa: ARG002
        self._end = offset + 1
        assert isinstance(key, ShareSnapshotKey | ShareUpdateKey)
        name = ShareKey(key.group_id, key.topic_id, key.partition)
        if isinstance(value, ShareSnapshotValue):
            before = self.states.get(name)
            state = self.states[name] = ShareState(value, offset)
            if before is not None:  # the lead of a partition never goes back to an older leader
                state.leader_epoch = max(before.leader_epoch, state.leader_epoch)
        elif isinstance(value, ShareUpdateValue):
            state_held = self.states.get(name)
            if state_held is not None:  # else its snapshot is cut off, and a tombstone follows
                state_held.update(value)
        elif isinstance(key, ShareSnapshotKey):
            self.states.pop(name, None)

    def replay_end_txn(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """Nobody writes transactionally here."""

    def on_loaded(self, at: Moment, out: Effects) -> None:
        out.timer(COLD, Millis(at.mono + self.settings.cold_ms))
        out.timer(PRUNE, Millis(at.mono + self.settings.prune_ms))

    def on_timer(self, key: Hashable, at: Moment, out: Effects) -> None:
        self._timers[key](at, out)

    def on_image(self, image: Any, delta: Any, at: Moment, out: Effects) -> None:
        """States of deleted topics go, in a step of their own: there may be very many."""
        self.image = image
        if delta is None or (delta.topics is not None and delta.topics.deleted):
            out.timer(FORGET, at.mono)

    # -- what time does ---------------------------------------------------------------------------

    def _write_cold_again(self, at: Moment, out: Effects) -> None:
        """Write snapshots that are old anew, unless nothing has been written since they were."""
        before = at.wall - self.settings.cold_ms
        old = (it for it in self.states.items() if it[1].written <= before)
        found: list[tuple[ShareKey, ShareState]] = []
        if not all(state.created != state.written for state in self.states.values()):
            found = list(islice(old, RECORDS_PER_STEP))
        self._snapshot(found, at, out)
        self._again(COLD, len(found), self.settings.cold_ms, at, out)

    def _snapshot(self, found: list[tuple[ShareKey, ShareState]], at: Moment, out: Effects) -> None:
        for key, state in found:
            value = state.snapshot()
            value.write_timestamp = at.wall  # that it differs from the creation tells: it is cold
            out.record(snapshot_key(key), value)

    def _forget_deleted(self, at: Moment, out: Effects) -> None:
        """Tombstones for what belongs to topics that are gone."""
        assert self.image is not None
        topics = self.image.topics.by_id
        gone = (key for key in self.states if key.topic_id not in topics)
        found = list(islice(gone, RECORDS_PER_STEP))
        for key in found:
            out.record(snapshot_key(key), None)
        if found:
            self._again(FORGET, len(found), None, at, out)

    def _again(
        self, timer: tuple[str], written: int, pause_ms: int | None, at: Moment, out: Effects
    ) -> None:
        """Come back at once for what is left, and soon if the log did not take this."""
        out.atomic = False
        if written == RECORDS_PER_STEP:
            out.timer(timer, at.mono)
        elif pause_ms is not None:
            out.timer(timer, Millis(at.mono + pause_ms))
        out.undo = lambda _, amends: amends.timer(timer, Millis(at.mono + RETRY_MS))

    def _prune(self, at: Moment, out: Effects) -> None:
        """Have the log cut where the oldest snapshot stands that somebody needs."""
        far_back = self._end - self._long
        found = [it for it in self.states.items() if it[1].offset < far_back][:RECORDS_PER_STEP]
        if found:
            self._snapshot(found, at, out)
            self._again(PRUNE, RECORDS_PER_STEP, None, at, out)
            return
        self._looked = self._end
        offset = min((state.offset for state in self.states.values()), default=self._end)
        if offset > self._pruned:
            self._pruned = offset
            out.errand(Prune(offset))
        out.timer(PRUNE, Millis(at.mono + self.settings.prune_ms))

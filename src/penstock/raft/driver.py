"""The metadata log of a running node: proposals in, commits out, in order.

A proposal is appended at once and committed when it is durable on a majority. Syncing happens in
a worker, one at a time: everything that is proposed while one sync runs shares the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from penstock.metadata.levels import NO_LEVELS, SUPPORTED
from penstock.model.invariants import invariant
from penstock.raft.batches import (
    BATCH_BYTES_MAX,
    encode_batch,
    encode_controls,
    leader_change,
)
from penstock.raft.effects import AppendLeaderChange, Commit, Effect, SaveElection
from penstock.raft.machine import Raft
from penstock.raft.messages import Replica
from penstock.raft.roles import Role
from penstock.raft.snapshots import SnapshotId, encode_snapshot, voter_records, write_snapshot
from penstock.raft.voters import DYNAMIC_FROM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.metadata.image import MetadataImage
    from penstock.metadata.loader import Published
    from penstock.platform.chance import Chance
    from penstock.platform.clock import Clock
    from penstock.platform.workers import Workers
    from penstock.raft.journal import Journal
    from penstock.raft.voters import Voters

log = logging.getLogger("penstock.raft")


class NotLeader(Exception):
    """This node does not lead the metadata log; somebody else may."""


class ProposalTooLarge(ValueError):
    """More than one batch can carry."""


class UnsupportedLevel(ValueError):
    """The metadata was written for another release."""


class QuorumLost(OSError):
    """The metadata log failed: nothing may be acknowledged any more, and the node must stop."""


class RaftDriver:
    """Owns the log, the vote and the clock of one voter."""

    def __init__(
        self, journal: Journal, node_id: int, clock: Clock, chance: Chance, workers: Workers
    ) -> None:
        self.journal = journal
        self.node_id = node_id
        self._clock = clock
        self._chance = chance
        self._workers = workers
        self._machine = Raft(
            Replica(node_id), journal.voters, journal.read_election(), journal.view
        )
        self._on_commit: Callable[[int], None] = _ignore
        self._on_failure: Callable[[BaseException], None] = _ignore
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._syncing: asyncio.Future[int] | None = None
        self._failure: BaseException | None = None
        self._snapshotting: asyncio.Future[None] | None = None
        self._bytes_since_snapshot = 0
        self._snapshot_at = clock.monotonic()
        self.caught_up_at = clock.now()

    # -- state ------------------------------------------------------------------------------------

    @property
    def leading(self) -> bool:
        return self._machine.role is Role.LEADER and self._failure is None

    @property
    def epoch(self) -> int:
        return self._machine.epoch

    @property
    def leader(self) -> int:
        return self._machine.leader

    @property
    def voters(self) -> Voters:
        return self._machine.voters

    @property
    def high_watermark(self) -> int:
        return self._machine.high_watermark

    @property
    def next_offset(self) -> int:
        """Where the next proposal's first record will stand."""
        return self.journal.log.end

    # -- running ----------------------------------------------------------------------------------

    def load(self) -> Published:
        """What the log said when it was opened, as one image and its difference from nothing.

        UnsupportedLevel if the cluster has agreed on something that this release cannot do.
        """
        published = self.journal.loader.publish()
        for name, level in published.image.features.levels.items():
            span = SUPPORTED.get(name, NO_LEVELS)
            if not span.holds(level):
                raise UnsupportedLevel(
                    f"{self.journal.directory} needs {name} {level}, and this release supports "
                    f"{span.first} to {span.last}: start the release that wrote it"
                )
        return published

    async def start(
        self,
        on_commit: Callable[[int], None],
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        """Stand for election; returns when the epoch's first record is committed.

        `on_commit` is called with each new high watermark, before anybody who waits for it goes
        on. `on_failure` is called once if the log can no longer be written.
        """
        self._on_commit = on_commit
        self._on_failure = on_failure or _ignore
        self._carry_out(self._machine.start(self._clock.monotonic(), self._chance))
        if self.leading:
            await self.committed(self.next_offset)

    async def close(self) -> None:
        """Finish what is under way; nothing is proposed afterwards."""
        while self._syncing is not None or self._snapshotting is not None:
            await asyncio.wait([f for f in (self._syncing, self._snapshotting) if f is not None])
            await asyncio.sleep(0)  # their callbacks may have started another
        self._machine.stop(self._clock.monotonic())
        self.journal.log.close()

    # -- proposing --------------------------------------------------------------------------------

    def propose(self, records: Sequence[Any], level: int) -> int:
        """Append one atomic batch; answers the end to wait for with `committed`."""
        if not self.leading:
            raise NotLeader(f"node {self.node_id} does not lead; the leader is {self.leader}")
        now = self._clock.now()
        journal = self.journal
        data = encode_batch(records, level, journal.log.end, self.epoch, now)
        if len(data) > BATCH_BYTES_MAX:
            raise ProposalTooLarge(f"{len(records)} records make {len(data)} bytes in one batch")
        self._append(data, now)
        return journal.log.end

    def committed(self, end: int) -> asyncio.Future[None]:
        """Done when everything below `end` is committed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            future.set_exception(QuorumLost(str(self._failure)))
        elif end <= self.high_watermark:
            future.set_result(None)
        else:
            self._waiting.append((end, future))
        return future

    def _append(self, data: bytes, now: int) -> None:
        journal = self.journal
        before = journal.log.end
        journal.log.append_batches(data, now)
        invariant(journal.log.end > before, "the metadata log did not take its own batch")
        journal.timestamp = now
        self._bytes_since_snapshot += len(data)
        self._sync()

    # -- syncing ----------------------------------------------------------------------------------

    def _sync(self) -> None:
        if self._syncing is None and self._failure is None:
            self._syncing = self._workers.submit(self.journal.log.sync)
            self._syncing.add_done_callback(self._on_synced)

    def _on_synced(self, done: asyncio.Future[int]) -> None:
        self._syncing = None
        failure = done.exception()
        if failure is not None:
            # A sync that failed may have dropped the pages: trying again would tell lies.
            self._fail(failure)
            return
        end = done.result()
        if end < self.journal.log.end:
            self._sync()
        try:
            self._carry_out(self._machine.synced(end, self._clock.monotonic()))
        except Exception as problem:
            # What is committed was not taken in: whoever waits would wait for ever.
            log.exception("a committed change could not be carried out")
            self._fail(problem)

    def _fail(self, failure: BaseException) -> None:
        log.critical("the metadata log in %s failed: %s", self.journal.directory, failure)
        self._failure = failure
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(QuorumLost(str(failure)))
        self._on_failure(failure)

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SaveElection):
                self.journal.save_election(effect.state)
            elif isinstance(effect, AppendLeaderChange):
                self._begin_epoch(effect)
            elif isinstance(effect, Commit):
                self._release(effect.high_watermark)

    def _begin_epoch(self, effect: AppendLeaderChange) -> None:
        now = self._clock.now()
        log_end = self.journal.log.end
        messages: list[tuple[int, Any]] = [leader_change(self.node_id, self.voters, effect.granted)]
        if log_end == 0 and self.voters.kraft_version >= DYNAMIC_FROM:
            # The voters came with the formatted directory: now they become part of the log.
            messages += voter_records(self.voters)
        self._machine.epoch_began(log_end)
        self._append(encode_controls(messages, log_end, effect.epoch, now), now)

    def _release(self, high_watermark: int) -> None:
        self.caught_up_at = self._clock.now()
        self.journal.log.high_watermark = high_watermark
        self._on_commit(high_watermark)
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            _, future = waiting.popleft()
            if not future.done():
                future.set_result(None)

    # -- snapshots --------------------------------------------------------------------------------

    def snapshot_if_due(self, image: MetadataImage) -> None:
        """Write a snapshot of a committed image if enough has happened since the last one."""
        settings = self.journal.settings
        if image.offset + 1 <= self.journal.snapshot_id.end or self._snapshotting is not None:
            return
        waited = self._clock.monotonic() - self._snapshot_at
        if self._bytes_since_snapshot >= settings.snapshot_bytes or (
            settings.snapshot_interval_ms > 0 and waited >= settings.snapshot_interval_ms
        ):
            self.snapshot(image)

    def snapshot(self, image: MetadataImage) -> asyncio.Future[None]:
        """Write a snapshot of a committed image, in a worker; then trim what it stands for."""
        journal = self.journal
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        self._bytes_since_snapshot = 0
        self._snapshot_at = self._clock.monotonic()
        now, covered, voters = self._clock.now(), journal.timestamp, self.voters
        level = image.features.metadata_version

        def work() -> None:
            data = encode_snapshot(image.records(), level, image.epoch, covered, now, voters)
            write_snapshot(journal.disk, journal.directory, snapshot_id, data)

        self._snapshotting = writing = self._workers.submit(work)
        writing.add_done_callback(lambda done: self._on_snapshot(done, snapshot_id))
        return writing

    def _on_snapshot(self, done: asyncio.Future[None], snapshot_id: SnapshotId) -> None:
        self._snapshotting = None
        failure = done.exception()
        if failure is not None:
            # The log still holds everything: go on, and try again when the next one is due.
            log.error("cannot write snapshot %s: %s", snapshot_id.name, failure)
            return
        self.journal.snapshot_id = snapshot_id
        gone = self.journal.trim(self._clock.now())
        log.info("wrote snapshot %s, dropped %d older", snapshot_id.name, len(gone))


def _ignore(_: object) -> None:
    pass

"""The metadata log of a running node: proposals in, commits out, in order.

A proposal is appended at once and committed when it is durable on a majority. Syncing happens in
a worker, one at a time: everything that is proposed while one sync runs shares the next.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.model.invariants import invariant
from penstock.net.peer import PeerGone
from penstock.raft.batches import BATCH_BYTES_MAX, encode_batch, leader_change
from penstock.raft.conversations import Conversations
from penstock.raft.effects import (
    AppendFetched,
    AppendLeaderChange,
    AppendVoters,
    Commit,
    Conclude,
    Effect,
    SaveElection,
    Send,
    TakeSnapshot,
    Truncate,
)
from penstock.raft.machine import Raft
from penstock.raft.member import NEVER
from penstock.raft.messages import (
    Ask,
    BeginEpoch,
    Change,
    ChangeReply,
    EndEpoch,
    EpochReply,
    Fetch,
    FetchReply,
    FetchSnapshot,
    Replica,
    Reply,
    SnapshotReply,
    Vote,
    VoteReply,
)
from penstock.raft.news import News
from penstock.raft.peers import NoPeers
from penstock.raft.roles import Role
from penstock.raft.snapshot_taker import SnapshotTaker
from penstock.raft.snapshot_writer import SnapshotWriter
from penstock.raft.snapshots import voter_records
from penstock.raft.support import check_supported
from penstock.raft.syncer import Syncer
from penstock.raft.timeouts import DEFAULT_TIMEOUTS, Timeouts
from penstock.raft.waiters import Tickets, Waiters
from penstock.storage.log import CorruptBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.metadata.cluster import Endpoint
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.loader import Published
    from penstock.platform.chance import Chance
    from penstock.platform.clock import Clock
    from penstock.platform.workers import Workers
    from penstock.raft.journal import Journal, Prepared
    from penstock.raft.peers import Peers
    from penstock.raft.progress import ReplicaProgress
    from penstock.raft.voters import Voters

log = logging.getLogger("penstock.raft")

FAREWELL_SECONDS_MAX = 0.5

R = TypeVar("R")


class NotLeader(Exception):
    """This node does not lead the metadata log; somebody else may."""


class ProposalTooLarge(ValueError):
    """More than one batch can carry."""


class QuorumLost(OSError):
    """The metadata log failed: nothing may be acknowledged any more, and the node must stop."""


class RaftDriver:
    """Owns the log, the vote, the clock and the conversations of one member of the quorum."""

    def __init__(
        self,
        journal: Journal,
        node_id: int,
        clock: Clock,
        chance: Chance,
        workers: Workers,
        peers: Peers | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        *,
        directory: bytes = ZERO_UUID,
        endpoints: Sequence[Endpoint] = (),
        joins: bool = False,
    ) -> None:
        """`directory` is the id of the disk that the journal lies on. Voters that the log names
        are known by it: one that came back with an empty disk must not pass for the one it was.
        `endpoints` are where a controller listens; with `joins` it asks for a vote by itself."""
        self.journal = journal
        self.node_id = node_id
        self._clock = clock
        self._chance = chance
        self._workers = workers
        self._peers = peers or NoPeers()
        self.own = Replica(node_id, directory)
        self._machine = Raft(
            self.own, journal.voters, journal.read_election(), journal.view, timeouts
        )
        self._machine.voters_at = journal.voters_offset
        self._machine.voters_before = journal.voters_before
        self._machine.endpoints = tuple(endpoints)
        self._machine.joins = joins
        self._on_commit: Callable[[int], None] = _ignore
        self._on_failure: Callable[[BaseException], None] = _ignore
        self.on_leadership: Callable[[bool], None] = _ignore
        self.on_gone: Callable[[int], None] = _ignore
        """Told, as often as it is tried, that nobody listens where another member should."""
        """Told when this node has begun to lead, its epoch's first record being committed, and
        when it leads no longer."""
        self._active = False
        self._waiters = Waiters()
        self._tickets = Tickets()
        self._syncer = Syncer(journal.log, workers, self._on_synced, self._fail)
        self._failure: BaseException | None = None
        self._closed = False
        self._snapshots = SnapshotWriter(journal, clock, workers)
        self._taker = SnapshotTaker(journal, self._peers, workers)
        self._alarm: asyncio.TimerHandle | None = None
        self._talks = Conversations(self._peers, self._heard, self._missed, self._fail)
        self._news = News()
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

    def replicas(self) -> list[ReplicaProgress]:
        """How far voters and observers are; nothing unless this node leads: only leaders know."""
        progress = self._machine.progress
        if progress is None or not self.leading:
            return []
        return progress.report(self._clock.monotonic(), self._clock.now())

    # -- running ----------------------------------------------------------------------------------

    def load(self) -> Published:
        """What the log said when it was opened, as one image and its difference from nothing.

        UnsupportedLevel if the cluster has agreed on something that this release cannot do.
        """
        published = self.journal.loader.publish()
        check_supported(self.journal.directory, published.image.features.levels)
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
        self._meet_voters()
        self._step(self._machine.start(self._clock.monotonic(), self._chance))
        if self.leading:
            await self.committed(self.next_offset)

    async def close(self) -> None:
        """Finish what is under way; nothing is proposed afterwards."""
        while under_way := [
            f for f in (self._syncer.under_way, self._snapshots.writing) if f is not None
        ]:
            await asyncio.wait(under_way)
            await asyncio.sleep(0)  # their callbacks may have started another
        before = set(self._talks.under_way)
        self._guarded(lambda: self._machine.stop(self._clock.monotonic()))
        self._closed = True
        self._tickets.give_up(QuorumLost("closed"))
        if self._alarm is not None:
            self._alarm.cancel()
        if farewells := self._talks.under_way - before:
            # Who leads no longer says so, if the others hear it; nobody waits long for that.
            await asyncio.wait(farewells, timeout=FAREWELL_SECONDS_MAX)
        self._talks.cancel()
        self._news.tell()
        self._peers.close()
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
        try:
            self._append(data, now)
        except OSError as problem:
            if len(self.voters.by_id) == 1:
                raise  # nobody else could lead: a full disk may have room again
            self._fail(problem)  # a leader that cannot write keeps the others from having one
            raise NotLeader(f"node {self.node_id} cannot write its metadata log") from problem
        return journal.log.end

    def committed(self, end: int) -> asyncio.Future[None]:
        """Done when everything below `end` is committed."""
        if self._failure is None and end > self.high_watermark:
            return self._waiters.add(end)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            future.set_exception(QuorumLost(str(self._failure)))
        else:
            future.set_result(None)
        return future

    def _append(self, data: bytes, now: int) -> None:
        journal = self.journal
        before = journal.log.end
        journal.log.append_batches(data, now)
        invariant(journal.log.end > before, "the metadata log did not take its own batch")
        journal.timestamp = now
        self._appended(len(data))

    def _appended(self, size: int) -> None:
        self._snapshots.bytes_since += size
        self._news.tell()
        self._syncer.sync()

    def _on_synced(self, end: int) -> None:
        self._guarded(lambda: self._machine.synced(end, self._clock.monotonic()))

    def _fail(self, failure: BaseException) -> None:
        if self._failure is not None:
            return
        log.critical("the metadata log in %s failed: %s", self.journal.directory, failure)
        self._failure = failure
        self._waiters.give_up(QuorumLost(str(failure)))
        self._tickets.give_up(QuorumLost(str(failure)))
        if self._alarm is not None:
            self._alarm.cancel()
        self._news.tell()
        self._on_failure(failure)

    # -- effects ----------------------------------------------------------------------------------

    def _step(self, effects: list[Effect]) -> None:
        """Carry out what the machine decided, and set the alarm for what it waits for."""
        for effect in effects:
            self._carry_out(effect)
        leads = self._machine.role is Role.LEADER
        if not leads:
            self._waiters.give_up(NotLeader(f"node {self.node_id} leads no longer"))
        active = self._machine.established
        if active != self._active:
            self._active = active
            self.on_leadership(active)
        if not leads:
            self._news.tell()
        self._plan()

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, SaveElection):
            self.journal.save_election(effect.state)
        elif isinstance(effect, AppendLeaderChange):
            self._begin_epoch(effect)
        elif isinstance(effect, Commit):
            self._release(effect.high_watermark)
        elif isinstance(effect, Send):
            self._talk(effect)
        elif isinstance(effect, AppendFetched):
            self._take(effect.records)
        elif isinstance(effect, Truncate):
            log.warning("going back to offset %d, as the leader's log says", effect.end)
            self.journal.truncate(effect.end, self._clock.now())
            self._voters_changed()
            self._step(self._machine.log_replaced())
        elif isinstance(effect, AppendVoters):
            self._append_voters(effect)
        elif isinstance(effect, Conclude):
            self._tickets.conclude(effect.ticket, effect.reply)
        else:
            self._take_snapshot(effect)

    def _take(self, records: bytes) -> None:
        """Append what the leader sent; its damaged part is asked for again."""
        before = self.journal.log.end
        try:
            self.journal.append_fetched(records, self.epoch, self._clock.now())
        except CorruptBatch as problem:
            log.error("the leader's batches are damaged: %s", problem)
        self._voters_changed()
        if self.journal.log.end > before:
            self._appended(len(records))
        else:
            self._step(self._machine.refetch(self._clock.monotonic(), self._chance))

    def _take_snapshot(self, effect: TakeSnapshot) -> None:
        self._talks.run(self._install(effect))

    async def _install(self, effect: TakeSnapshot) -> None:
        """Take a leader's snapshot, unless something else came meanwhile."""
        before = (self.epoch, self._machine.position)
        ask = FetchSnapshot(self.epoch, self.own, effect.snapshot, 0)
        try:
            prepared = await self._taker.take(
                ask,
                effect.leader,
                lambda: self._machine.snapshot_grows(self._clock.monotonic()),
            )
        except (OSError, ValueError) as problem:
            self._fail(problem)
            return
        if prepared is not None:
            if before == (self.epoch, self._machine.position) and not self._closed:
                self._guarded(lambda: self._begin_behind(effect, prepared))
                return
            self.journal.discard(prepared)
        self._guarded(lambda: self._machine.refetch(self._clock.monotonic(), self._chance))

    def _begin_behind(self, effect: TakeSnapshot, prepared: Prepared) -> list[Effect]:
        """From here on a fault of the disk is one of the log's: it may be half replaced."""
        self.journal.install(prepared, self._clock.now())
        log.info("took snapshot %s from node %d", effect.snapshot.name, effect.leader)
        self._voters_changed()
        return self._machine.log_replaced()

    # -- voters -----------------------------------------------------------------------------------

    async def change_voters(self, ask: Change) -> ChangeReply:
        """The answer to who wants other voters: when it is done, or why it cannot be."""
        return await self._changed(
            lambda ticket: self._machine.on_change(ask, ticket, self._clock.monotonic())
        )

    async def upgrade_kraft_version(self, level: int, *, only_check: bool = False) -> ChangeReply:
        """Let the log, and no longer every node's configuration, say who votes.

        Done when it is committed; INVALID_UPDATE_VERSION with the reason if it cannot be.
        """
        now = self._clock.monotonic()
        return await self._changed(
            lambda ticket: self._machine.upgrade(level, ticket, now, only_check=only_check)
        )

    async def _changed(
        self, step: Callable[[int], tuple[ChangeReply | None, list[Effect]]]
    ) -> ChangeReply:
        ticket, concluded = self._tickets.take()
        reply: ChangeReply | None = self._answered(lambda: step(ticket))
        if reply is None:
            return await concluded
        self._tickets.forget(ticket)
        return reply

    def _append_voters(self, effect: AppendVoters) -> None:
        """They count from now on, committed or not."""
        voters, now = effect.voters, self._clock.now()
        messages = voter_records(voters)
        if voters.kraft_version == self.voters.kraft_version:
            messages = messages[1:]
        size = len(self.journal.append_controls(messages, self.epoch, now))
        log.info("from offset %d on, %s vote", self.journal.voters_offset, voters.ids)
        self._voters_changed()
        self._appended(size)

    def _voters_changed(self) -> None:
        journal, machine = self.journal, self._machine
        if journal.voters is not machine.voters or journal.voters_offset != machine.voters_at:
            now = self._clock.monotonic()
            effects = machine.set_voters(
                journal.voters, journal.voters_offset, journal.voters_before, now
            )
            self._meet_voters()
            self._step(effects)

    def _meet_voters(self) -> None:
        """Where the log names the voters, it says where they listen: on the listener that this
        node uses too, if they have it."""
        own = [each.name for each in self._machine.endpoints[:1]]
        for voter in self.voters.by_id.values():
            if voter.endpoints and voter.id != self.node_id:
                named = [each for each in voter.endpoints if each.name in own]
                best = (named or voter.endpoints)[0]
                self._peers.learn(voter.id, (best.host, best.port))

    def _plan(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due = self._machine.due
        if due < NEVER and not self._closed and self._failure is None:
            wait = max(0, due - self._clock.monotonic()) / 1000
            self._alarm = asyncio.get_running_loop().call_later(wait, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._guarded(lambda: self._machine.tick(self._clock.monotonic(), self._chance))

    def _guarded(self, step: Callable[[], list[Effect]]) -> None:
        """Take a step. If it cannot be carried out, what the machine believes is not so: such a
        node must neither act nor answer any more."""
        if self._failure is not None or self._closed:
            return
        try:
            self._step(step())
        except Exception as problem:
            log.exception("the quorum cannot go on")
            self._fail(problem)

    # -- asking -----------------------------------------------------------------------------------

    def _talk(self, send: Send) -> None:
        voter = self.voters.by_id.get(send.to)
        self._talks.begin(Replica(send.to, voter.directory if voter else ZERO_UUID), send.ask)

    def _missed(self, to: int, ask: Ask, problem: Exception) -> None:
        log.debug("%s to node %d: %s", type(ask).__name__, to, problem)
        now = self._clock.monotonic()
        gone = isinstance(problem, PeerGone)
        told = self._machine.gone if gone else self._machine.lost
        self._guarded(lambda: told(to, ask, now, self._chance))
        if gone:
            self.on_gone(to)

    def _heard(self, sender: int, ask: Ask, reply: Reply) -> None:
        now = self._clock.monotonic()
        self._guarded(lambda: self._machine.on_reply(sender, ask, reply, now, self._chance))

    # -- answering --------------------------------------------------------------------------------

    def answer(self, ask: Vote | BeginEpoch | EndEpoch) -> VoteReply | EpochReply:
        """What this node says to another member; durable where it is a promise.

        QuorumLost if this node can promise nothing any more.
        """
        now, chance, machine = self._clock.monotonic(), self._chance, self._machine
        if isinstance(ask, Vote):
            return self._answered(lambda: machine.on_vote(ask, now, chance))
        if isinstance(ask, BeginEpoch):
            return self._answered(lambda: machine.on_begin_epoch(ask, now, chance))
        return self._answered(lambda: machine.on_end_epoch(ask, now, chance))

    def _answered(self, step: Callable[[], tuple[R, list[Effect]]]) -> R:
        """The machine's answer, when all is done that it rests upon."""
        self._check_able()
        replies: list[R] = []

        def act() -> list[Effect]:
            reply, effects = step()
            replies.append(reply)
            return effects

        self._guarded(act)
        self._check_able()  # a vote that could not be stored must not be heard of
        return replies[0]

    def _check_able(self) -> None:
        if self._failure is not None or self._closed:
            raise QuorumLost(f"node {self.node_id} is stopping: {self._failure or 'closed'}")

    async def answer_fetch(self, ask: Fetch, wait_ms: int, bytes_max: int) -> FetchReply:
        """What follows a member's log; if that is nothing, news for which it is waited."""
        deadline = self._clock.monotonic() + wait_ms
        while True:
            reply = self._answered(lambda: self._machine.on_fetch(ask, self._clock.monotonic()))
            plain = reply.error is ErrorCode.NONE and not reply.diverging and not reply.snapshot
            if not plain:
                return reply
            if self.journal.log.end > ask.log.end:
                records = self.journal.log.read_bytes(ask.log.end, bytes_max)
                return reply._replace(records=records)
            left = deadline - self._clock.monotonic()
            if reply.high_watermark > ask.high_watermark or left <= 0:
                return reply
            if not await self._news.wait(left):
                return reply

    def answer_snapshot(self, ask: FetchSnapshot, bytes_max: int) -> SnapshotReply:
        """A piece of a snapshot, for who cannot go on without it."""
        self._check_able()
        nothing = SnapshotReply(self.epoch, self.leader)
        refusal = self._machine.refuse(ask.epoch)
        if refusal is not ErrorCode.NONE:
            return nothing._replace(error=refusal)
        try:
            size, data = self.journal.read_snapshot(ask.snapshot, ask.position, bytes_max)
        except FileNotFoundError:
            return nothing._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND)
        if not 0 <= ask.position < size:
            return nothing._replace(error=ErrorCode.POSITION_OUT_OF_RANGE)
        return nothing._replace(size=size, data=data)

    def _begin_epoch(self, effect: AppendLeaderChange) -> None:
        now = self._clock.now()
        start = self.journal.log.end
        messages: list[tuple[int, Any]] = [leader_change(self.node_id, self.voters, effect.granted)]
        unwritten = self._machine.unwritten_voters
        if unwritten is not None:
            messages += voter_records(unwritten)
        self._machine.epoch_began(start)
        size = len(self.journal.append_controls(messages, effect.epoch, now))
        self._voters_changed()
        self._appended(size)

    def _release(self, high_watermark: int) -> None:
        self.caught_up_at = self._clock.now()
        self.journal.log.high_watermark = high_watermark
        self._on_commit(high_watermark)
        self._waiters.release(high_watermark)
        self._news.tell()

    # -- snapshots --------------------------------------------------------------------------------

    def snapshot_if_due(self, image: MetadataImage) -> None:
        """Write a snapshot of a committed image if enough has happened since the last one."""
        if self._snapshots.is_due(image):
            self._snapshots.write(image)

    def snapshot(self, image: MetadataImage) -> asyncio.Future[None]:
        """Write a snapshot of a committed image now."""
        return self._snapshots.write(image)


def _ignore(_: object) -> None:
    pass

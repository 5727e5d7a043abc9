"""Leading: telling the others, counting what they have, and leaving when they are gone. Pure."""

from __future__ import annotations

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE, Millis
from penstock.model.invariants import invariant
from penstock.raft.effects import (
    AppendLeaderChange,
    Commit,
    Conclude,
    Effect,
    SaveElection,
    Send,
)
from penstock.raft.member import NEVER, Member
from penstock.raft.messages import (
    BeginEpoch,
    ChangeReply,
    EndEpoch,
    Fetch,
    FetchReply,
    Position,
)
from penstock.raft.progress import Progress
from penstock.raft.roles import Event, Role


class Leadership(Member):
    """A member that leads."""

    def _lead(self, now: Millis) -> list[Effect]:
        self._become(Event.ELECTED)
        self.leader = self.node
        self._epoch_is_led = True
        self._defeats = 0
        self.epoch_start = -1
        self.progress = Progress(self.node, self.voters, now)
        self.told = {}
        self._role_due = self._fetch_due = NEVER
        granted = tuple(sorted(self._ballot.granted))
        begun: list[Effect] = [
            SaveElection(self.election),
            AppendLeaderChange(self.epoch, granted),
        ]
        return begun + self._announce(now)

    def epoch_began(self, offset: int) -> None:
        """The leader change record stands at `offset`."""
        invariant(self.role is Role.LEADER, "only a leader begins an epoch in the log")
        self.epoch_start = offset

    def _announce(self, now: Millis) -> list[Effect]:
        """Tell the voters that do not fetch that they should, and see that most do."""
        assert self.progress is not None
        self._ask_due = NEVER
        if not self._others():
            return []
        if self._role_due == NEVER:
            self._role_due = Millis(now + self.timeouts.desertion)
        self._ask_due = Millis(now + self.timeouts.announcement)
        silent = self.progress.silent(Millis(now - self.timeouts.announcement))
        return [Send(voter, BeginEpoch(self.epoch, self.node)) for voter in silent]

    def _check_followers(self, now: Millis) -> list[Effect]:
        assert self.progress is not None
        self._role_due = Millis(self.progress.heard_by(now) + self.timeouts.desertion)
        if self._role_due > now:
            return []
        # The others may have elected somebody by now: clients must not be held here.
        return self._resign(Event.DESERTED, now)

    def _resign(self, event: Event, now: Millis) -> list[Effect]:
        assert self.progress is not None
        end = EndEpoch(self.epoch, self.node, self.progress.successors())
        self._become(event)
        self.leader = NO_NODE
        self._ask_due = NEVER
        self._role_due = Millis(now + 2 * self.timeouts.election)
        return [*self._cease(), *(Send(voter, end) for voter in self._others())]

    def on_fetch(self, ask: Fetch, now: Millis) -> tuple[FetchReply, list[Effect]]:
        """A replica wants what follows its log.

        Where the reply has no error, no divergence and no snapshot, the driver adds the records,
        and waits for some if there are none.
        """
        refusal = self.refuse(ask.epoch)
        if refusal is not ErrorCode.NONE:
            return FetchReply(self.epoch, self.leader, error=refusal), []
        if ask.replica.id == self.node:
            # Another node with this one's id: what it has must not pass for what is durable here.
            return FetchReply(self.epoch, self.leader, error=ErrorCode.INVALID_REQUEST), []
        assert self.progress is not None
        reply = FetchReply(self.epoch, self.leader, self.high_watermark)
        start = self.log.start
        # Records of an older epoch than any here: whether they are ours can no longer be told.
        stranger = ask.log.end == start.end and ask.log.epoch != start.epoch
        if start.end > 0 and (ask.log.end < start.end or ask.log.epoch < start.epoch or stranger):
            return reply._replace(snapshot=self.log.snapshot), []
        parted = self._parted(ask.log)
        if parted is not None:
            return reply._replace(diverging=parted), []
        if ask.replica.id != NO_NODE:  # a consumer that looks around copies nothing
            self.progress.fetched(ask.replica, ask.log.end, self.log.end, now)
        effects = self._advance(now)
        return reply._replace(high_watermark=self.high_watermark), effects

    def refuse(self, epoch: int) -> ErrorCode:
        """Why a member of `epoch` cannot be served here; NONE if it can."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self.role is not Role.LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _parted(self, other: Position) -> Position | None:
        """Where to look for the last record that both logs have; None if `other` is within ours."""
        if other.end == 0 or other == self.log.start:
            return None
        known = self.log.end_of(other.epoch)
        return None if known.epoch == other.epoch and other.end <= known.end else known

    def _advance(self, now: Millis) -> list[Effect]:
        assert self.progress is not None
        agreed = self.progress.agreed()
        # Counting replicas of an older epoch's records proves nothing: a voter without them
        # could still win. Once one record of this epoch is safe, all before it are.
        if self.epoch_start < 0 or agreed <= self.epoch_start or agreed <= self.high_watermark:
            return []
        self.high_watermark = agreed
        return [Commit(agreed), *self._settle_change(now)]

    @property
    def established(self) -> bool:
        """Whether a record of this leader's own epoch is committed: no other's can be by now."""
        return self.role is Role.LEADER and self.high_watermark > self.epoch_start >= 0

    def _settle_change(self, now: Millis) -> list[Effect]:
        """Answer for a change of the voters that is committed, and go if this node is not among
        them: until then it had to lead, or nobody could have committed that it must not."""
        if self.voters_at >= self.high_watermark:
            return []
        effects: list[Effect] = []
        if self.change is not None and 0 <= self.change.at < self.high_watermark:
            effects.append(Conclude(self.change.ticket, ChangeReply(self.epoch, self.leader)))
            self.change = None
        return effects if self.is_voter else effects + self._resign(Event.REMOVED, now)

"""Following: fetching what the leader has, and going back where the logs part. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE, Millis
from penstock.model.invariants import invariant
from penstock.raft.effects import AppendFetched, Commit, Effect, Send, TakeSnapshot, Truncate
from penstock.raft.member import NEVER, Member
from penstock.raft.messages import (
    BeginEpoch,
    EndEpoch,
    EpochReply,
    Fetch,
    FetchReply,
    Position,
)
from penstock.raft.roles import Role

if TYPE_CHECKING:
    from penstock.platform.chance import Chance


class Following(Member):
    """A member that copies another's log, or looks for one to copy."""

    def on_begin_epoch(
        self, ask: BeginEpoch, now: Millis, chance: Chance
    ) -> tuple[EpochReply, list[Effect]]:
        """Somebody leads."""
        if ask.epoch < self.epoch:
            return EpochReply(self.epoch, self.leader, ErrorCode.FENCED_LEADER_EPOCH), []
        if not self._is_credible(ask.epoch):
            return EpochReply(self.epoch, self.leader, ErrorCode.INVALID_REQUEST), []
        self._missed = NO_NODE  # it speaks for itself
        effects = self._learn(ask.epoch, ask.leader, now, chance)
        wrong = self.leader != ask.leader
        error = ErrorCode.INVALID_REQUEST if wrong else ErrorCode.NONE
        return EpochReply(self.epoch, self.leader, error), effects

    def on_end_epoch(
        self, ask: EndEpoch, now: Millis, chance: Chance
    ) -> tuple[EpochReply, list[Effect]]:
        """The leader leaves: stand as soon as one's place among the successors says."""
        if ask.epoch < self.epoch:
            return EpochReply(self.epoch, self.leader, ErrorCode.FENCED_LEADER_EPOCH), []
        if not self._is_credible(ask.epoch):
            return EpochReply(self.epoch, self.leader, ErrorCode.INVALID_REQUEST), []
        effects = self._learn(ask.epoch, ask.leader, now, chance)
        if self.role is Role.FOLLOWER and self.leader == ask.leader:
            self._loyal = False
            self._left_epoch = self.epoch
            places = [each.matches(self.own) for each in ask.successors]
            place = places.index(True) if True in places else len(places)
            # Not before the others have heard it too: who is still loyal would refuse its vote.
            wait = self._backoff(place) if place else self.timeouts.retry
            self._role_due = min(self._role_due, Millis(now + wait))
        return EpochReply(self.epoch, self.leader), effects

    def _doubt_leader(self, now: Millis, chance: Chance) -> None:
        """Its process has ended, it seems: then its silence need not be waited for.

        If only this node cannot reach it, the others refuse to vote, and nothing comes of it; if
        they cannot either, they know it by the time that one of them asks.
        """
        if self.role is Role.FOLLOWER:
            self._loyal = False
            wait = chance.between(4 * self.timeouts.retry, 10 * self.timeouts.retry)
            self._role_due = min(self._role_due, Millis(now + wait))

    def on_epoch_reply(self, reply: EpochReply, now: Millis, chance: Chance) -> list[Effect]:
        """A voter heard that an epoch began or ended; it may know of a later one."""
        return self._learn(reply.epoch, reply.leader, now, chance)

    def on_fetch_reply(
        self, sender: int, ask: Fetch, reply: FetchReply, now: Millis, chance: Chance
    ) -> list[Effect]:
        """Records, or where to look for them. `sender` is NO_NODE if anybody was asked."""
        effects = self._learn(reply.epoch, reply.leader, now, chance)
        if ask is not self._fetch_asked or any(isinstance(effect, Send) for effect in effects):
            # Another fetch is under way, perhaps to another leader. Answering each with the next
            # would keep all of them going for ever.
            return effects
        current = sender == self.leader and ask.epoch == reply.epoch == self.epoch
        if self.role is not Role.FOLLOWER or reply.error is not ErrorCode.NONE or not current:
            if self.role in (Role.FOLLOWER, Role.UNATTACHED):
                self._fetch_due = Millis(now + self._retry(chance))
            return effects
        if self._left_epoch != self.epoch:  # else it answered before it left: that means nothing
            self._loyal = True
            self._role_due = Millis(now + self.timeouts.fetch)
        if ask.log != self.position:
            return effects + self._fetch()  # it was asked before the log changed
        return effects + self._take(reply)

    def _take(self, reply: FetchReply) -> list[Effect]:
        if reply.diverging is not None:
            return self._go_back(reply.diverging)
        if reply.snapshot is not None:
            self._check_kept(reply.snapshot.end)
            return [TakeSnapshot(self.leader, reply.snapshot)]
        committed: list[Effect] = []
        # What comes with this reply is not durable here yet: it counts when the next one is.
        if min(reply.high_watermark, self._synced_end) > self.high_watermark:
            self.high_watermark = min(reply.high_watermark, self._synced_end)
            committed.append(Commit(self.high_watermark))
        if reply.records:
            return [*committed, AppendFetched(reply.records)]
        return committed + self._fetch()

    def _go_back(self, leaders: Position) -> list[Effect]:
        end = min(self.log.end_of(leaders.epoch).end, leaders.end)
        self._check_kept(end)
        return [Truncate(end)]

    def _check_kept(self, end: int) -> None:
        """What is committed stays: a snapshot is, even if this node has not heard of more yet."""
        committed = max(self.high_watermark, self.log.snapshot.end)
        invariant(
            end >= committed,
            f"the leader of epoch {self.epoch} lacks what was committed: its log ends at {end} "
            f"where ours is committed up to {committed}",
        )

    def log_replaced(self) -> list[Effect]:
        """The log was truncated, or begun anew behind a snapshot, durably: go on fetching."""
        self._synced_end = self.log.end
        return self._fetch() if self.role is Role.FOLLOWER else []

    def refetch(self, now: Millis, chance: Chance) -> list[Effect]:
        """What the leader sent could not be used: ask again, after a while."""
        self._fetch_due = Millis(now + self._retry(chance))
        return []

    def snapshot_grows(self, now: Millis) -> None:
        """Another piece of a snapshot came from the leader: it is alive."""
        if self.role is Role.FOLLOWER:
            self._role_due = Millis(now + self.timeouts.fetch)

    def _fetch(self) -> list[Effect]:
        self._fetch_due = NEVER
        if self.role not in (Role.FOLLOWER, Role.UNATTACHED) or self._synced_end != self.log.end:
            return []  # `synced` comes back to this
        # Even who is asked without being known to lead may do so, and count this node.
        to = self.leader if self.role is Role.FOLLOWER else NO_NODE
        self._fetch_asked = Fetch(self.epoch, self.own, self.position, self.high_watermark)
        return [Send(to, self._fetch_asked)]

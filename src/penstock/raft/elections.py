"""Elections: asking for votes, and granting them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE, Millis
from penstock.raft.ballot import Ballot
from penstock.raft.effects import Effect, SaveElection, Send
from penstock.raft.member import NEVER, Member
from penstock.raft.messages import Vote, VoteReply
from penstock.raft.roles import Event, Role

if TYPE_CHECKING:
    from penstock.platform.chance import Chance


class Elections(Member):
    """A member that stands, and that votes."""

    # -- standing ---------------------------------------------------------------------------------

    def _explore(self, event: Event, now: Millis, chance: Chance) -> list[Effect]:
        """Ask whether an election could be won before an epoch is spent on it."""
        self._become(event)
        # Others may still believe in it, and would send this node back to it for ever.
        self._missed, self.leader = self.leader, NO_NODE
        return self._ask_for_votes(now, chance, pre=True)

    def _stand(self, now: Millis, chance: Chance) -> list[Effect]:
        self.epoch += 1
        self.voted = self.own
        self._epoch_is_led = False
        # A vote for oneself that nobody else hears need not be durable: until a leader is, the
        # epoch has left no trace, and the next start may use it again.
        alone = not self._others()
        effects: list[Effect] = [] if alone else [SaveElection(self.election)]
        return effects + self._ask_for_votes(now, chance, pre=False)

    def _ask_for_votes(self, now: Millis, chance: Chance, *, pre: bool) -> list[Effect]:
        self._ballot = Ballot(self.node)
        self._role_due = Millis(now + self._patience(chance))
        self._fetch_due = self._ask_due = NEVER
        ask = Vote(self.epoch, self.own, self.position, pre)
        sends: list[Effect] = [Send(voter, ask) for voter in self._others()]
        return sends + self._count(now, chance)

    def _ask_again(self) -> list[Effect]:
        self._ask_due = NEVER
        if self.role not in (Role.PROSPECTIVE, Role.CANDIDATE):
            return []
        ask = Vote(self.epoch, self.own, self.position, self.role is Role.PROSPECTIVE)
        again, self._ballot.unasked = self._ballot.unasked, set()
        return [Send(voter, ask) for voter in sorted(again)]

    def on_vote_reply(
        self, voter: int, ask: Vote, reply: VoteReply, now: Millis, chance: Chance
    ) -> list[Effect]:
        """A voter answered."""
        effects = self._learn(reply.epoch, reply.leader, now, chance)
        if not self._asks(ask):
            return effects
        if reply.error is not ErrorCode.NONE:
            # It neither granted nor refused: it could not tell, or was not the one who was meant.
            return effects + self._vote_lost(voter, ask, now, chance)
        self._ballot.take(voter, reply.granted)
        return effects + self._count(now, chance)

    def _vote_lost(self, to: int, ask: Vote, now: Millis, chance: Chance) -> list[Effect]:
        if self._asks(ask):
            self._ballot.miss(to)
            self._ask_due = Millis(now + self._retry(chance))
        return []

    def _asks(self, ask: Vote) -> bool:
        """Whether the answer to `ask` still matters."""
        role = Role.PROSPECTIVE if ask.pre else Role.CANDIDATE
        return self.role is role and ask.epoch == self.epoch

    def _count(self, now: Millis, chance: Chance) -> list[Effect]:
        if self._ballot.won(self.voters):
            if self.role is Role.CANDIDATE:
                return self._lead(now)
            self._become(Event.ENCOURAGED)
            return self._stand(now, chance)
        if self._ballot.lost(self.voters):
            if self.role is Role.PROSPECTIVE:
                return self._give_up(now, chance)
            # Not again at once: whoever won, or was beaten too, should get its chance.
            self._defeats += 1
            wait = chance.between(1, self._backoff(self._defeats))
            self._role_due = min(self._role_due, Millis(now + wait))
        return []

    def _give_up(self, now: Millis, chance: Chance) -> list[Effect]:
        """Too few would vote for this node: somebody may lead whom it does not hear."""
        self._become(Event.DISCOURAGED)
        self._missed = NO_NODE
        self._await_leader(now, chance)
        return []

    # -- granting ---------------------------------------------------------------------------------

    def on_vote(self, ask: Vote, now: Millis, chance: Chance) -> tuple[VoteReply, list[Effect]]:
        """Another node wants to lead, or (`pre`) to know whether it could."""
        if ask.epoch < self.epoch:
            return VoteReply(self.epoch, self.leader, error=ErrorCode.FENCED_LEADER_EPOCH), []
        if not self._is_credible(ask.epoch):
            return VoteReply(self.epoch, self.leader, error=ErrorCode.INVALID_REQUEST), []
        effects = self._learn(ask.epoch, NO_NODE, now, chance)
        granted = self._grants(ask)
        if granted and not ask.pre and self.voted.id == NO_NODE:
            self.voted = ask.candidate
            self._role_due = Millis(now + self._patience(chance))
            effects.append(SaveElection(self.election))
        return VoteReply(self.epoch, self.leader, granted), effects

    def _grants(self, ask: Vote) -> bool:
        if ask.pre:
            # Who hears its leader does not help to unseat it.
            content = self.role is Role.LEADER or (self.role is Role.FOLLOWER and self._loyal)
            return not content and ask.log >= self.position
        if self._epoch_is_led:
            return False
        if self.voted.id != NO_NODE:
            return self.voted.matches(ask.candidate)
        return ask.log >= self.position

"""Quorums with one bug each, to show that the simulation would have found it."""

from __future__ import annotations

from penstock.model.ids import NO_NODE, Millis
from penstock.platform.chance import Chance
from penstock.raft.effects import Commit, Effect, SaveElection, Truncate
from penstock.raft.election_state import ElectionState
from penstock.raft.machine import Raft
from penstock.raft.member import LogView
from penstock.raft.messages import Ask, Fetch, FetchReply, Position, Replica, Vote, VoteReply
from penstock.raft.roles import Role
from penstock.raft.timeouts import DEFAULT_TIMEOUTS, Timeouts
from penstock.raft.voters import Voters


class VotesForAnybody(Raft):
    """Grants its vote to a log that lacks what its own has."""

    def _grants(self, ask: Vote) -> bool:
        return super()._grants(ask._replace(log=max(ask.log, self.position)))


class ForgetsItsVote(Raft):
    """Votes again in an epoch in which it voted before."""

    def _grants(self, ask: Vote) -> bool:
        if not ask.pre:
            self.voted = self.voted._replace(id=NO_NODE)
        return super()._grants(ask)


class TellsBeforeItStores(Raft):
    """Grants a vote that a crash makes it forget."""

    def on_vote(self, ask: Vote, now: Millis, chance: Chance) -> tuple[VoteReply, list[Effect]]:
        reply, effects = super().on_vote(ask, now, chance)
        return reply, [each for each in effects if not isinstance(each, SaveElection)]


class ForgetsItsEpoch(Raft):
    """Starts as if it had never promised anything."""

    def __init__(
        self,
        own: Replica,
        voters: Voters,
        stored: ElectionState,
        log: LogView,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        super().__init__(own, voters, ElectionState(), log, timeouts)


class LeadsWithTooFew(Raft):
    """Needs one vote less than it should."""

    def _count(self, now: Millis, chance: Chance) -> list[Effect]:
        if self.role is Role.CANDIDATE and len(self._ballot.granted) >= self.voters.majority - 1:
            return self._lead(now)
        return super()._count(now, chance)


class FetchesBeforeItSyncs(Raft):
    """Says that it has what a crash could still take."""

    def _fetch(self) -> list[Effect]:
        self._synced_end = self.log.end
        return super()._fetch()

    def synced(self, end: int, now: Millis) -> list[Effect]:
        return super().synced(max(end, self.log.end), now)


class LooksAroundBeforeItSyncs(Raft):
    """Says so only to those of whom it does not know that they lead."""

    def _fetch(self) -> list[Effect]:
        kept = self._synced_end
        if self.role is Role.UNATTACHED:
            self._synced_end = self.log.end
        effects = super()._fetch()
        self._synced_end = kept
        return effects


class CommitsWithTooFew(Raft):
    """Counts one voter too few."""

    def _advance(self, now: Millis) -> list[Effect]:
        progress = self.progress
        assert progress is not None
        voters = [copy.end for at, copy in progress.copies.items() if at.id in self.voters.by_id]
        agreed = sorted(voters, reverse=True)[self.voters.majority - 2]
        progress.agreed = lambda: agreed  # type: ignore[method-assign]
        return super()._advance(now)


class CommitsByCountingAlone(Raft):
    """Takes what most have for committed, though a voter without it could still win."""

    def _advance(self, now: Millis) -> list[Effect]:
        began, self.epoch_start = self.epoch_start, min(self.epoch_start, 0)
        effects = super()._advance(now)
        self.epoch_start = began
        return effects


class CommitsWhatItLacks(Raft):
    """Believes the leader's high watermark beyond its own log's durable end."""

    def _take(self, reply: FetchReply) -> list[Effect]:
        kept, self._synced_end = self._synced_end, max(self._synced_end, reply.high_watermark)
        effects = super()._take(reply)
        self._synced_end = kept
        return effects


class ForgetsWhatIsCommitted(Raft):
    """Lets its high watermark go where the leader's is."""

    def _take(self, reply: FetchReply) -> list[Effect]:
        if 0 <= reply.high_watermark < self.high_watermark and not reply.diverging:
            self.high_watermark = reply.high_watermark
            return [Commit(reply.high_watermark), *super()._take(reply)]
        return super()._take(reply)


class TakesAnyLog(Raft):
    """Does not ask whether a follower's log is the beginning of its own."""

    def _parted(self, other: Position) -> Position | None:
        return None


class GoesBackTooLittle(Raft):
    """Keeps one record that the leader never had."""

    def _go_back(self, leaders: Position) -> list[Effect]:
        return [
            Truncate(min(effect.end + 1, self.log.end)) if isinstance(effect, Truncate) else effect
            for effect in super()._go_back(leaders)
        ]


class GoesBackTooFar(Raft):
    """Drops what the leader and it have in common, committed or not."""

    def _go_back(self, leaders: Position) -> list[Effect]:
        return [Truncate(max(self.log.start.end, min(leaders.end, self.log.end) - 5))]


class GivesUpFetching(Raft):
    """Does not ask again where there was no answer."""

    def lost(self, to: int, ask: Ask, now: Millis, chance: Chance) -> list[Effect]:
        if isinstance(ask, Fetch) and self.role is Role.UNATTACHED and not self.is_voter:
            self._role_due = Millis(1 << 62)
            return []
        return super().lost(to, ask, now, chance)


class ChangesTwiceAtOnce(Raft):
    """Begins a change of the voters before the last one is committed."""

    def _must_wait(self) -> str | None:
        self.change = None
        return None if self.established else super()._must_wait()


class KeepsVotersThatWereUndone(Raft):
    """Goes on with voters that the log no longer names."""

    def set_voters(
        self, voters: Voters, at: int, before: Voters | None, now: Millis
    ) -> list[Effect]:
        return super().set_voters(voters, at, before, now) if at > self.voters_at else []


class StaysAfterItWasRemoved(Raft):
    """Leads on although it is committed that it must not."""

    def _settle_change(self, now: Millis) -> list[Effect]:
        return [] if not self.is_voter else super()._settle_change(now)


class CountsItselfAfterItWasRemoved(Raft):
    """Takes its own log for a voter's while it waits until it may go."""

    def _advance(self, now: Millis) -> list[Effect]:
        progress = self.progress
        assert progress is not None
        if not self.is_voter and self.own in progress.copies:
            counted = [*self.voters.by_id.values(), self.own]
            ends = sorted(
                (
                    progress.copies[Replica(each.id, each.directory)].end
                    for each in counted
                    if Replica(each.id, each.directory) in progress.copies
                ),
                reverse=True,
            )
            agreed = ends[self.voters.majority - 1]
            progress.agreed = lambda: agreed  # type: ignore[method-assign]
        return super()._advance(now)


class NeverStandsOnceItRemovedItself(Raft):
    """Leaves the others alone with a log that nobody else could win against."""

    @property
    def may_stand(self) -> bool:
        return self.is_voter


PLANTED: dict[type[Raft], int] = {
    VotesForAnybody: 6,
    ForgetsItsVote: 2,
    TellsBeforeItStores: 0,
    ForgetsItsEpoch: 25,
    LeadsWithTooFew: 30,
    FetchesBeforeItSyncs: 1,
    LooksAroundBeforeItSyncs: 5,
    CommitsWithTooFew: 3,
    CommitsByCountingAlone: 0,
    CommitsWhatItLacks: 0,
    ForgetsWhatIsCommitted: 26,
    TakesAnyLog: 1,
    GoesBackTooLittle: 1,
    GoesBackTooFar: 4,
    GivesUpFetching: 0,
    ChangesTwiceAtOnce: 45,
    KeepsVotersThatWereUndone: 107,
    StaysAfterItWasRemoved: 1,
    CountsItselfAfterItWasRemoved: 1,
    NeverStandsOnceItRemovedItself: 93,
}
"""Each with a seed that finds it; if the world has changed since, others are looked through."""

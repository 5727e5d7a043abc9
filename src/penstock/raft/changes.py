"""Changing who votes, one voter at a time. Pure.

A voter more or less at a time leaves each majority of the old voters with a member in each majority
of the new ones, so that there cannot be two leaders of one epoch. Hence a change waits until the
one before it is committed, and until the leader has committed something of its own epoch: only
then is a change that an earlier leader left behind either committed or gone. New voters count from
where the log names them, committed or not; if that part of the log goes, so do they.
"""

from __future__ import annotations

from penstock.metadata.levels import KRAFT_VERSION, LevelRange
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID, Millis
from penstock.raft.effects import AppendVoters, Conclude, Effect, Send
from penstock.raft.leadership import Leadership
from penstock.raft.member import PendingChange
from penstock.raft.messages import (
    AddVoter,
    Change,
    ChangeReply,
    Probe,
    ProbeReply,
    RemoveVoter,
    Replica,
    UpdateVoter,
)
from penstock.raft.voters import DYNAMIC_FROM, Voter, Voters

Answer = tuple[ChangeReply | None, list[Effect]]
"""What is known at once, or None where a `Conclude` follows."""


class Changes(Leadership):
    """A leader that is asked to change who votes."""

    def set_voters(
        self, voters: Voters, at: int, before: Voters | None, now: Millis
    ) -> list[Effect]:
        """The log says at offset `at`, or says no longer, that these vote; `before` did so far."""
        self.voters, self.voters_at, self.voters_before = voters, at, before
        if self.progress is None:
            return []
        self.progress.set_voters(voters, now)
        change = self.change
        if change is not None and change.candidate is None and change.at < 0:
            self.change = change._replace(at=at)
        # Who led alone had nobody to tell and nobody to miss: now it may have.
        return self._announce(now)

    @property
    def unwritten_voters(self) -> Voters | None:
        """What a new leader adds to its epoch's first batch: the voters, if only formatting has
        named them so far, or if this one is not where the log says that it is."""
        known = self.voters.by_id.get(self.node)
        if self.voters.kraft_version < DYNAMIC_FROM or known is None:
            return None
        moved = bool(self.endpoints) and not known.is_like(self.own_voter)
        if self.voters_at >= 0 and not moved:
            return None
        return self.voters.with_voter(self.own_voter) if moved else self.voters

    def on_change(self, ask: Change, ticket: int, now: Millis) -> Answer:
        """Somebody wants other voters, or a voter has changed."""
        refusal = self._unready(ask)
        if refusal is not None:
            return refusal, []
        if isinstance(ask, AddVoter):
            return self._add(ask, ticket, now)
        if isinstance(ask, RemoveVoter):
            return self._remove(ask.replica, ticket, now)
        return self._update(ask.voter)

    def _unready(self, ask: Change) -> ChangeReply | None:
        """Why nothing can be changed at the moment."""
        refusal = self.refuse(ask.epoch if isinstance(ask, UpdateVoter) else self.epoch)
        if refusal is not ErrorCode.NONE:
            return self._refused(refusal)
        later = self._must_wait()
        if later is not None:
            return self._refused(ErrorCode.REQUEST_TIMED_OUT, later)
        if self.voters.kraft_version < DYNAMIC_FROM and not isinstance(ask, UpdateVoter):
            return self._refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The voters are static: {KRAFT_VERSION} is {self.voters.kraft_version}.",
            )
        return None

    def _must_wait(self) -> str | None:
        if self.change is not None:
            return "Another change of the voters is under way."
        if not self.established:
            return "The leader has not committed anything of its epoch yet."
        if self.voters_at >= self.high_watermark:
            return "The last change of the voters is not committed yet."
        return None

    # -- adding -----------------------------------------------------------------------------------

    def _add(self, ask: AddVoter, ticket: int, now: Millis) -> Answer:
        voter = ask.voter
        if voter.id in self.voters.by_id:
            return self._refused(
                ErrorCode.DUPLICATE_VOTER, f"Node {voter.id} is one of the voters already."
            ), []
        self.change = PendingChange(ticket, self._patience_ends(now), candidate=ask)
        return None, [Send(voter.id, Probe(voter))]

    def on_probe_reply(self, ask: Probe, reply: ProbeReply, now: Millis) -> list[Effect]:
        """Who shall vote can be reached, or says that it cannot."""
        change = self.change
        if change is None or change.candidate is None or change.candidate.voter is not ask.voter:
            return []
        problem = self._unfit(ask.voter, reply, now)
        if problem is not None:
            return self._conclude(problem)
        assert reply.kraft_versions is not None
        voter = ask.voter._replace(kraft_versions=reply.kraft_versions)
        appended: list[Effect] = [AppendVoters(self.voters.with_voter(voter))]
        if not change.candidate.when_committed:
            return appended + self._conclude(ChangeReply(self.epoch, self.leader))
        self.change = change._replace(candidate=None)
        return appended

    def _unfit(self, voter: Voter, reply: ProbeReply, now: Millis) -> ChangeReply | None:
        assert self.progress is not None
        if reply.error is not ErrorCode.NONE:
            return self._refused(
                ErrorCode.REQUEST_TIMED_OUT, f"Node {voter.id} answers {reply.error.name}."
            )
        level, span = self.voters.kraft_version, reply.kraft_versions
        if span is None or not span.holds(level):
            return self._refused(
                ErrorCode.INVALID_REQUEST,
                f"Node {voter.id} does not support {KRAFT_VERSION} {level}.",
            )
        if not self.progress.keeps_up(Replica(voter.id, voter.directory), now):
            return self._refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Node {voter.id} has not copied the log yet: the others would wait for it.",
            )
        return None

    def probe_lost(self, ask: Probe) -> list[Effect]:
        """Who shall vote cannot be reached."""
        change = self.change
        if change is None or change.candidate is None or change.candidate.voter is not ask.voter:
            return []
        reason = f"Node {ask.voter.id} cannot be reached where it is said to listen."
        return self._conclude(self._refused(ErrorCode.REQUEST_TIMED_OUT, reason))

    # -- removing and updating --------------------------------------------------------------------

    def _remove(self, replica: Replica, ticket: int, now: Millis) -> Answer:
        voter = self.voters.by_id.get(replica.id)
        if voter is None or voter.directory != replica.directory:
            return self._refused(
                ErrorCode.VOTER_NOT_FOUND,
                f"Node {replica.id} is not one of the voters, or has another directory.",
            ), []
        if len(self.voters.by_id) == 1:
            return self._refused(ErrorCode.INVALID_REQUEST, "The last voter cannot be removed."), []
        self.change = PendingChange(ticket, self._patience_ends(now))
        return None, [AppendVoters(self.voters.without(voter.id))]

    def _update(self, voter: Voter) -> Answer:
        done = ChangeReply(self.epoch, self.leader)
        if not voter.kraft_versions.holds(self.voters.kraft_version):
            return self._refused(ErrorCode.INVALID_REQUEST), []
        known = self.voters.by_id.get(voter.id)
        dynamic = self.voters.kraft_version >= DYNAMIC_FROM
        if known is None or (dynamic and known.directory != voter.directory):
            return self._refused(ErrorCode.VOTER_NOT_FOUND), []
        if not dynamic:
            # There is no place in the log for it yet; `upgrade` will make one.
            self.told[voter.id] = voter
            return done, []
        if known.is_like(voter):
            return done, []
        return done, [AppendVoters(self.voters.with_voter(voter))]

    # -- from static to dynamic -------------------------------------------------------------------

    def upgrade(self, level: int, ticket: int, now: Millis, *, only_check: bool = False) -> Answer:
        """Let the log say from now on who votes, if every voter has told what it must say."""
        done = ChangeReply(self.epoch, self.leader)
        refusal = self.refuse(self.epoch)
        if refusal is not ErrorCode.NONE:
            return self._refused(refusal), []
        if level == self.voters.kraft_version:
            return done, []
        later = self._must_wait()
        if later is not None:
            return self._refused(ErrorCode.REQUEST_TIMED_OUT, later), []
        told = {**self.told, self.node: self.own_voter}
        problem = self._not_upgradable(level, told)
        if problem is not None:
            return self._refused(ErrorCode.INVALID_UPDATE_VERSION, problem), []
        if only_check:
            return done, []
        self.change = PendingChange(ticket, self._patience_ends(now))
        voters = {voter: told[voter] for voter in self.voters.ids}
        return None, [AppendVoters(Voters(voters, level))]

    def _not_upgradable(self, level: int, told: dict[int, Voter]) -> str | None:
        if level < self.voters.kraft_version:
            return "The log cannot go back to saying nothing of the voters."
        for voter in self.voters.ids:
            known = told.get(voter)
            if known is None or known.directory == ZERO_UUID or not known.endpoints:
                return f"Voter {voter} has not said yet where it listens and which disk it has."
            if not known.kraft_versions.holds(level):
                return f"Voter {voter} supports {_words(known.kraft_versions)}."
        return None

    # -- ends -------------------------------------------------------------------------------------

    def _expire_change(self, now: Millis) -> list[Effect]:
        """It may still be committed: whoever asked is told to look again."""
        if self.change is None or now < self.change.due:
            return []
        return self._conclude(
            self._refused(ErrorCode.REQUEST_TIMED_OUT, "The change took too long.")
        )

    def _conclude(self, reply: ChangeReply) -> list[Effect]:
        assert self.change is not None
        ticket, self.change = self.change.ticket, None
        return [Conclude(ticket, reply)]

    def _refused(self, error: ErrorCode, message: str | None = None) -> ChangeReply:
        return ChangeReply(self.epoch, self.leader, error, message)

    def _patience_ends(self, now: Millis) -> Millis:
        return Millis(now + self.timeouts.request)


def _words(span: LevelRange) -> str:
    return f"{KRAFT_VERSION} {span.first} to {span.last}"

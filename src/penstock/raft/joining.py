"""A follower sees to it that the leader knows it as it is, or asks it for a vote. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.raft.effects import Effect, Send
from penstock.raft.following import Following
from penstock.raft.member import NEVER
from penstock.raft.messages import (
    AddVoter,
    Change,
    ChangeReply,
    RemoveVoter,
    Replica,
    UpdateVoter,
)
from penstock.raft.roles import Role
from penstock.raft.voters import DYNAMIC_FROM

if TYPE_CHECKING:
    from penstock.platform.chance import Chance


class Joining(Following):
    """A follower that listens somewhere, and so may vote."""

    def _introduce(self, now: Millis) -> list[Effect]:
        """Tell the leader what it does not know, once in a while: after a few fetches, so that
        this node knows what the log says of it."""
        self._introduce_due = NEVER
        if self.role is not Role.FOLLOWER or not self.endpoints:
            return []
        self._introduce_due = Millis(now + self.timeouts.fetch)
        news = self._news()
        return [] if news is None else [Send(self.leader, news)]

    def _news(self) -> Change | None:
        dynamic = self.voters.kraft_version >= DYNAMIC_FROM
        known = self.voters.by_id.get(self.node)
        if self.is_voter:
            # The leader of a static quorum has no log to remember it from: each one is told once.
            current = self._introduced
            if dynamic:
                current = known is not None and known.is_like(self.own_voter)
            return None if current else UpdateVoter(self.epoch, self.own_voter)
        if not (dynamic and self.joins):
            return None
        if known is not None:
            # Its own place is held by a disk that it no longer has.
            return RemoveVoter(Replica(known.id, known.directory))
        return AddVoter(self.own_voter, when_committed=False)

    def on_change_reply(
        self, ask: Change, reply: ChangeReply, now: Millis, chance: Chance
    ) -> list[Effect]:
        """The leader answered; if it would not, it is asked again when the time comes."""
        if isinstance(ask, UpdateVoter) and reply.error is ErrorCode.NONE:
            self._introduced = self._introduced or ask.epoch == self.epoch
        return self._learn(reply.epoch, reply.leader, now, chance)

"""Who leads the metadata log, and up to where it is committed.

Pure: time, chance and what happened come in; effects come out, to be carried out in their order.
What the log holds is read through `LogView`; the driver changes it as effects say, and tells when
it is durable. Who lacks something fetches it, and the offset of a fetch says that everything
before it is safe with the one who asks: so followers fetch only behind what they have synced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.ids import Millis
from penstock.model.invariants import invariant
from penstock.raft.changes import Changes
from penstock.raft.effects import Effect
from penstock.raft.elections import Elections
from penstock.raft.joining import Joining
from penstock.raft.messages import (
    Ask,
    Change,
    ChangeReply,
    EpochReply,
    Fetch,
    FetchReply,
    Probe,
    ProbeReply,
    Reply,
    Vote,
    VoteReply,
)
from penstock.raft.roles import Event, Role

if TYPE_CHECKING:
    from penstock.platform.chance import Chance


class Raft(Elections, Changes, Joining):
    """One node's part in the quorum: as a voter, or as an observer that only copies."""

    def start(self, now: Millis, chance: Chance) -> list[Effect]:
        """The log is open. A sole voter need not wait for anybody."""
        if self.is_voter and len(self.voters.by_id) == 1:
            self._become(Event.ALONE)
            return self._stand(now, chance)
        self._await_leader(now, chance)
        return []

    def stop(self, now: Millis) -> list[Effect]:
        """The process is ending: the others need not wait until they miss this node."""
        return self._resign(Event.STOP, now) if self.role is Role.LEADER else []

    def tick(self, now: Millis, chance: Chance) -> list[Effect]:
        """Do what is due."""
        effects: list[Effect] = []
        if now >= self._role_due:
            effects += self._on_role_due(now, chance)
        if now >= self._ask_due:
            effects += self._announce(now) if self.role is Role.LEADER else self._ask_again()
        if now >= self._fetch_due:
            effects += self._fetch()
        if now >= self._introduce_due:
            effects += self._introduce(now)
        return effects + self._expire_change(now)

    def _on_role_due(self, now: Millis, chance: Chance) -> list[Effect]:
        if self.role is Role.LEADER:
            return self._check_followers(now)
        if not self.may_stand:
            self._become(Event.LEFT_OUT)
            self._await_leader(now, chance)
            return []
        if self.role is Role.PROSPECTIVE:
            return self._give_up(now, chance)
        event = Event.DEFEATED if self.role is Role.CANDIDATE else Event.SILENCE
        return self._explore(event, now, chance)

    def synced(self, end: int, now: Millis) -> list[Effect]:
        """This node's own log is durable up to `end`."""
        self._synced_end = end
        if self.role is Role.LEADER and self.progress is not None:
            self.progress.fetched(self.own, end, self.log.end, now)
            return self._advance(now)
        return self._fetch() if self.role in (Role.FOLLOWER, Role.UNATTACHED) else []

    def gone(self, to: int, ask: Ask, now: Millis, chance: Chance) -> list[Effect]:
        """Nobody listens any more where a node was."""
        if ask is self._fetch_asked and to == self.leader:
            self._doubt_leader(now, chance)
        return self.lost(to, ask, now, chance)

    def lost(self, to: int, ask: Ask, now: Millis, chance: Chance) -> list[Effect]:
        """A node could not be asked, or did not answer."""
        if ask is self._fetch_asked:
            return self.refetch(now, chance)
        if isinstance(ask, Probe):
            return self.probe_lost(ask)
        # A leader tells again by itself, and who resigned is missed soon enough.
        return self._vote_lost(to, ask, now, chance) if isinstance(ask, Vote) else []

    def on_reply(
        self, sender: int, ask: Ask, reply: Reply, now: Millis, chance: Chance
    ) -> list[Effect]:
        """Somebody answered; `sender` is NO_NODE if anybody was asked."""
        if isinstance(ask, Vote) and isinstance(reply, VoteReply):
            return self.on_vote_reply(sender, ask, reply, now, chance)
        if isinstance(ask, Fetch) and isinstance(reply, FetchReply):
            return self.on_fetch_reply(sender, ask, reply, now, chance)
        if isinstance(ask, Probe) and isinstance(reply, ProbeReply):
            return self.on_probe_reply(ask, reply, now)
        if isinstance(ask, Change) and isinstance(reply, ChangeReply):
            return self.on_change_reply(ask, reply, now, chance)
        invariant(isinstance(reply, EpochReply), f"a {type(reply).__name__} to {ask}")
        assert isinstance(reply, EpochReply)
        return self.on_epoch_reply(reply, now, chance)

"""What a leader knows of those who copy its log. Pure."""

from __future__ import annotations

from typing import NamedTuple

from penstock.model.ids import ZERO_UUID, Millis
from penstock.raft.messages import Replica
from penstock.raft.voters import Voters

OBSERVER_MS_MAX = 300_000
"""An observer that was not heard from for so long is forgotten."""

KEEPS_UP_MS_MAX = 3_600_000
"""As in Kafka: who fetched within the hour, and had everything at some time, may become a voter."""

OBSERVERS_MAX = 10_000


class ReplicaProgress(NamedTuple):
    """How far a replica of the metadata log is, as the leader tells it to those who ask."""

    replica: Replica
    is_voter: bool
    end: int
    """Durable there up to here; -1 if it has not said so yet."""
    fetched_at: int
    """Milliseconds since 1970; -1 if it has not fetched in this epoch."""
    caught_up_at: int
    """When it last had all that the leader had; -1 if that was not in this epoch."""


class Copy:
    """How far one replica has come."""

    __slots__ = ("caught_up_at", "end", "fetched_at", "fetched_end_at")

    def __init__(self, now: Millis) -> None:
        self.end = -1
        """Durable there up to here; -1 until it said so in this epoch."""
        self.fetched_at = now
        self.caught_up_at = Millis(-1)
        self.fetched_end_at = (-1, now)
        """The leader's end when it last fetched, and when that was."""

    def fetched(self, end: int, leader_end: int, now: Millis) -> None:
        """It asked for what follows `end`."""
        then_end, then = self.fetched_end_at
        if end >= leader_end:
            self.caught_up_at = now
        elif end >= then_end:
            # It now has all that there was when it last asked: it keeps up, if a step behind.
            self.caught_up_at = then
        self.fetched_end_at = (leader_end, now)
        self.end = end
        self.fetched_at = now


class Progress:
    """All replicas of one leader's epoch."""

    def __init__(self, own: int, voters: Voters, now: Millis) -> None:
        self._own = own
        self.copies: dict[Replica, Copy] = {}
        self.set_voters(voters, now)

    def set_voters(self, voters: Voters, now: Millis) -> None:
        """The voters from now on: those who stay keep their positions."""
        self.voters = voters
        self._keys = {v.id: Replica(v.id, v.directory) for v in voters.by_id.values()}
        for replica in self._keys.values():
            if replica not in self.copies:
                self.copies[replica] = Copy(now)
            if replica.directory != ZERO_UUID:
                # It is known by its disk from now on, and not one more observer.
                self.copies.pop(Replica(replica.id, ZERO_UUID), None)

    def keeps_up(self, replica: Replica, now: Millis) -> bool:
        """Whether an observer has had all that there was, and still fetches."""
        copy = self.copies.get(replica)
        return (
            copy is not None and copy.caught_up_at >= 0 and now - copy.fetched_at < KEEPS_UP_MS_MAX
        )

    def key(self, replica: Replica) -> Replica:
        """The voter that a replica is, or the replica itself.

        A voter that is known by its disk must name it: who does not may have another by now.
        """
        voter = self._keys.get(replica.id)
        if voter is None:
            return replica
        same = replica.id == self._own or voter.directory in (ZERO_UUID, replica.directory)
        return voter if same else replica

    def fetched(self, replica: Replica, end: int, leader_end: int, now: Millis) -> None:
        """A replica asked for what follows `end`: up to there its log is durable."""
        replica = self.key(replica)
        copy = self.copies.get(replica)
        if copy is None:
            self._forget_observers(now)
            if len(self.copies) >= OBSERVERS_MAX:
                return
            copy = self.copies[replica] = Copy(now)
        copy.fetched(end, leader_end, now)

    def agreed(self) -> int:
        """Up to where more than half of the voters have the log; -1 if that is not known."""
        ends = sorted((self.copies[key].end for key in self._keys.values()), reverse=True)
        return ends[self.voters.majority - 1]

    def heard_by(self, now: Millis) -> Millis:
        """Since when the leader has not been in touch with more than half of the voters."""
        times = sorted(
            (
                now if key.id == self._own else self.copies[key].fetched_at
                for key in self._keys.values()
            ),
            reverse=True,
        )
        return times[self.voters.majority - 1]

    def silent(self, since: Millis) -> list[int]:
        """Other voters that have not fetched since then."""
        return [
            key.id
            for key in self._keys.values()
            if key.id != self._own
            and (copy := self.copies[key])
            and (copy.end < 0 or copy.fetched_at <= since)
        ]

    def successors(self) -> tuple[Replica, ...]:
        """The other voters, those who have most of the log first."""
        others = (key for key in self._keys.values() if key.id != self._own)
        return tuple(sorted(others, key=lambda key: (-self.copies[key].end, key.id)))

    def report(self, now: Millis, since_1970: int) -> list[ReplicaProgress]:
        """Voters in the order of their ids, then the observers that were heard from lately.

        Times are told by a calendar on which it is `since_1970` milliseconds now.
        """
        voters = set(self._keys.values())
        observers = [
            replica
            for replica, copy in self.copies.items()
            # Who voted and was removed may never have been heard from.
            if replica not in voters and copy.end >= 0
            if now - copy.fetched_at <= OBSERVER_MS_MAX
        ]
        found = []
        for replica in (*sorted(voters), *sorted(observers)):
            copy = self.copies[replica]
            fetched_at, caught_up_at = copy.fetched_at, copy.caught_up_at
            if replica.id == self._own:
                fetched_at = caught_up_at = now  # it has what it has
            known = copy.end >= 0
            found.append(
                ReplicaProgress(
                    replica,
                    replica in voters,
                    copy.end,
                    since_1970 - (now - fetched_at) if known else -1,
                    since_1970 - (now - caught_up_at) if known and caught_up_at >= 0 else -1,
                )
            )
        return found

    def _forget_observers(self, now: Millis) -> None:
        voters = set(self._keys.values())
        for replica, copy in list(self.copies.items()):
            if replica not in voters and now - copy.fetched_at > OBSERVER_MS_MAX:
                del self.copies[replica]

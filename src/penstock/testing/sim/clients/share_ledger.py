"""What the members of a share group got and said, and what a group may not do with its records.

- A record that a member accepted, with an answer that said so, is not delivered again. Kafka
  promises no more than this: a leader that has been replaced and does not know it yet may still
  hand out what others are done with, because a fetch is not written down. So a delivery counts
  only if its leader knew of no older epoch than the one that took the acknowledgement.
- While one member holds a record, and its session lives, nobody else gets it.
- No record is delivered more often than the group allows.
- In the end each record was accepted by somebody, or delivered as often as allowed, or rejected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.testing.sim.clients.violation import Violation

CLOCK_SECONDS = 0.001
"""Nodes count whole milliseconds: a lock may end so much earlier."""


class Seen(NamedTuple):
    """Of a leader: which epoch it believed in when it was asked, and when its answer came."""

    node_id: int
    epoch: int
    answered_in: int

    def is_that_of(self, other: Seen) -> bool:
        """Whether both got their answers from one reign for sure: the next knows of no holds."""
        return self == other and self.epoch == self.answered_in


class Hold:
    """A record in the hands of a member, as far as the member knows."""

    def __init__(self, member: str, got: float, until: float, seen: Seen) -> None:
        self.member = member
        self.got = got
        self.until = until
        self.seen = seen
        self.rival: tuple[str, float] | None = None
        """Who else got it meanwhile, and when. That is wrong if the session outlived it."""


class Ledger:
    """Of one group on one partition."""

    def __init__(self, count_max: int) -> None:
        self.count_max = count_max
        self.deliveries = 0
        self.accepts = 0
        """With an answer that said so."""
        self._rejected: set[int] = set()
        """With an answer that said so."""
        self._taken: set[int] = set()
        """Accepted, with an answer or without."""
        self._accepted: dict[int, tuple[float, int]] = {}
        self._excused: set[int] = set()
        """Rejected, with an answer or without; or delivered for the last time."""
        self._holds: dict[int, Hold] = {}

    def deliver(
        self,
        member: str,
        offsets: Iterable[int],
        count: int,
        *,
        sent: float,
        got: float,
        lock_seconds: float,
        seen: Seen,
    ) -> None:
        """A member got records: it asked a leader that believed in an epoch."""
        if count > self.count_max:
            raise Violation(f"{member} got {list(offsets)} as delivery {count}")
        for offset in offsets:
            self.deliveries += 1
            if count == self.count_max:
                self._excused.add(offset)
            accepted, epoch = self._accepted.get(offset, (sent, 0))
            if accepted < sent and seen.epoch >= epoch >= 0:
                raise Violation(
                    f"{member} got {offset} from node {seen.node_id} in epoch {seen.epoch}, "
                    f"{sent - accepted:.3f} s after it was accepted in epoch {epoch}"
                )
            hold = self._holds.get(offset)
            is_anothers = hold is not None and hold.member != member and hold.seen.is_that_of(seen)
            if hold is not None and is_anothers and hold.got < sent and got < hold.until:
                hold.rival = member, got
                continue
            self._holds[offset] = Hold(member, got, sent + lock_seconds - CLOCK_SECONDS, seen)

    def lives(self, member: str, sent: float) -> None:
        """The member's session had an answer that it would not have had if it had ended before."""
        for offset, hold in self._holds.items():
            if hold.member == member and hold.rival is not None and hold.rival[1] < sent:
                raise Violation(f"{member} held {offset}, and {hold.rival[0]} got it meanwhile")

    def lost(self, member: str) -> None:
        """The member's session is over, or may be."""
        self._holds = {o: hold for o, hold in self._holds.items() if hold.member != member}

    def saw(self, accepted: Iterable[int], rejected: Iterable[int]) -> None:
        """A member accepts or rejects records; whatever comes of that, they are not lost."""
        self._taken.update(accepted)
        self._excused.update(rejected)

    def let_go(self, offsets: Iterable[int]) -> None:
        """A member has spoken about records, and the group has answered: they are not its own."""
        for offset in offsets:
            self._holds.pop(offset, None)

    def accept(self, offsets: Iterable[int], now: float, epoch: int) -> None:
        """The group said that it has heard; its leader believed in this epoch by then."""
        for offset in offsets:
            self.accepts += 1
            self._accepted.setdefault(offset, (now, epoch))

    def reject(self, offsets: Iterable[int]) -> None:
        """The group said that it has heard: these are given up."""
        self._rejected.update(offsets)

    @property
    def rejected(self) -> set[int]:
        """Records that the group has given up for sure. If another member took one before its late
        holder rejected it, the answer is the same, and nothing comes of the rejection."""
        return self._rejected - self._taken

    def missing(self, offsets: Iterable[int]) -> list[int]:
        """Records that nobody has accepted, and that the group has not given up either."""
        return [offset for offset in offsets if offset not in self._excused | self._taken]

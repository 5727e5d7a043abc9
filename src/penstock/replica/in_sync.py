"""How far a leader's followers have come, and who of them counts as in sync. Pure.

A follower's fetch says that it has everything below the offset which it asks for. From that the
leader knows three things: what all of the in-sync set has (nothing else is committed), who has
caught up and may join the set, and who has fallen behind and has to leave it.

The set itself is the controller's. The leader proposes a change and, until it hears what became of
it, counts those who are in either set: whichever turns out to be true, nothing is committed that
one of its members lacks. At most one proposal is on its way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.metadata.cluster import BrokerImage

UNKNOWN = -1
"""An offset or a broker's epoch of which nothing was heard yet."""
NEVER = -(1 << 62)
"""A time before all others."""
UNBOUNDED = 1 << 62
"""The end of what all followers have, where there are none."""

LAG_MS_MAX = 30_000

_NOT_APPLIED = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
"""The controller agrees on where the partition is, and has not done what was proposed."""

_OUTDATED = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""The controller knows more than this leader, whom the metadata will soon tell."""


class Peers:
    """What a leader has to know of other brokers; one for all partitions of a node."""

    __slots__ = ("brokers", "lag_ms_max")

    def __init__(
        self, brokers: Mapping[int, BrokerImage] | None = None, lag_ms_max: int = LAG_MS_MAX
    ) -> None:
        self.brokers: Mapping[int, BrokerImage] = {} if brokers is None else brokers
        self.lag_ms_max = lag_ms_max

    def may_join(self, follower: Follower) -> bool:
        """Whether the controller would take this follower, in the life that it fetched in."""
        broker = self.brokers.get(follower.node_id)
        return broker is not None and broker.active and broker.epoch == follower.broker_epoch

    def is_stale(self, node_id: int, broker_epoch: int) -> bool:
        """Whether a broker has registered anew since it had this epoch."""
        broker = self.brokers.get(node_id)
        return broker is not None and broker_epoch < broker.epoch

    def is_alive(self, node_id: int) -> bool:
        broker = self.brokers.get(node_id)
        return broker is not None and not broker.fenced


class Follower:
    """One follower, as its last fetch shows it."""

    __slots__ = (
        "broker_epoch",
        "caught_up_at",
        "end",
        "fetched_at",
        "leader_end",
        "node_id",
        "start",
    )

    def __init__(self, node_id: int, caught_up_at: int = NEVER) -> None:
        self.node_id = node_id
        self.broker_epoch = UNKNOWN
        self.end = UNKNOWN
        self.start = UNKNOWN
        self.caught_up_at = caught_up_at
        self.fetched_at = NEVER
        self.leader_end = UNKNOWN
        """The leader's end at the time of the last fetch."""

    def fetched(self, broker_epoch: int, end: int, start: int, leader_end: int, now: int) -> None:
        """Everything below `end` is there. It asks for what the leader had when it last asked, or
        more: then it was abreast of the leader at that time, even if it never gets to the end."""
        if end >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now)
        elif end >= self.leader_end:
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        self.broker_epoch = broker_epoch
        self.end = end
        self.start = start
        self.fetched_at = now
        self.leader_end = max(leader_end, self.leader_end)

    def keeps_up(self, leader_end: int, now: int, lag_ms_max: int) -> bool:
        return self.end == leader_end or now - self.caught_up_at <= lag_ms_max


class Proposal(NamedTuple):
    """An in-sync set that a leader wants the controller to make the true one."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    """Each broker and its epoch; -1 for one that has not fetched from this leader yet."""


class Decided(NamedTuple):
    """A partition's state as the controller answers it."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


class InSync:
    """The followers of a partition that this node leads, in one leader epoch."""

    __slots__ = (
        "_joining",
        "_node_id",
        "_peers",
        "_recovering",
        "followers",
        "isr",
        "leader_epoch",
        "leader_start",
        "partition_epoch",
        "proposed",
    )

    def __init__(
        self,
        node_id: int,
        peers: Peers,
        *,
        leader_epoch: int,
        leader_start: int,
        partition_epoch: int,
        isr: tuple[int, ...],
        replicas: tuple[int, ...],
        recovering: bool,
        now: int,
    ) -> None:
        self._node_id = node_id
        self._peers = peers
        self.leader_epoch = leader_epoch
        self.leader_start = leader_start
        """The end of the log when this node began to lead: whoever has less may lack what is
        committed, though the watermark does not show it yet."""
        self.partition_epoch = partition_epoch
        self.isr = isr
        self.followers = {
            each: Follower(each, now if each in isr else NEVER)
            for each in replicas
            if each != node_id
        }
        self.proposed: Proposal | None = None
        self._joining: tuple[int, ...] = ()
        self._recovering = recovering

    def follow_metadata(
        self,
        partition_epoch: int,
        isr: tuple[int, ...],
        replicas: tuple[int, ...],
        recovering: bool,
    ) -> None:
        """The metadata moved on within the same leader epoch; a proposal that was made before is
        void, as it names a partition epoch that is over."""
        known = self.followers
        self.followers = {
            each: known.get(each) or Follower(each) for each in replicas if each != self._node_id
        }
        self._settle(partition_epoch, isr)
        self._recovering = recovering

    # -- what all have ----------------------------------------------------------------------

    @property
    def maximal(self) -> tuple[int, ...]:
        """The in-sync set and who may have joined it."""
        return self.isr + self._joining

    def end_of_all(self, leader_end: int, now: int) -> int:
        """The end of what every follower has that counts; UNBOUNDED if none counts.

        One that keeps up and is about to join counts already: the watermark would run away from
        it otherwise, and it would never get in.
        """
        peers = self._peers
        isr, joining = self.isr, self._joining
        end = UNBOUNDED
        for node_id, follower in self.followers.items():
            if follower.end < end and (
                node_id in isr
                or node_id in joining
                or (
                    follower.keeps_up(leader_end, now, peers.lag_ms_max)
                    and peers.may_join(follower)
                )
            ):
                end = follower.end
        return end

    def start_of_all(self, leader_start: int) -> int:
        """The lowest beginning among the replicas that are alive; -1 while one is unknown."""
        starts = [
            follower.start
            for node_id, follower in self.followers.items()
            if self._peers.is_alive(node_id)
        ]
        return min([leader_start, *starts])

    def members(self) -> list[tuple[int, int, int]]:
        """Those in sync besides the leader: node, start and end."""
        return [
            (node_id, follower.start, follower.end)
            for node_id, follower in self.followers.items()
            if node_id in self.isr
        ]

    # -- changes of the set -----------------------------------------------------------------

    def fetched(
        self, node_id: int, broker_epoch: int, end: int, start: int, leader_end: int, now: int
    ) -> ErrorCode:
        """A follower has everything below `end`; or why that does not count."""
        follower = self.followers.get(node_id)
        if follower is None or self._peers.is_stale(node_id, broker_epoch):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        follower.fetched(broker_epoch, end, start, leader_end, now)
        return ErrorCode.NONE

    def kept_up(self, node_id: int, at: int) -> None:
        """A follower has asked at a time, and there was nothing that it did not have."""
        follower = self.followers.get(node_id)
        if follower is not None:
            follower.caught_up_at = max(follower.caught_up_at, at)
            follower.fetched_at = max(follower.fetched_at, at)

    def propose_joining(self, node_id: int, high_watermark: int) -> Proposal | None:
        """The set with this follower, if it has what it takes and is not in there yet."""
        if self.proposed is not None or node_id in self.isr:
            return None
        if not self._may_join(self.followers[node_id], high_watermark):
            return None
        self._joining = (node_id,)
        return self._propose((*self.isr, node_id))

    def candidates(self, high_watermark: int) -> list[int]:
        """Who could join, if it is still there: its next fetch will show."""
        if self.proposed is not None or len(self.isr) > len(self.followers):
            return []
        return [
            node_id
            for node_id, follower in self.followers.items()
            if node_id not in self.isr and self._may_join(follower, high_watermark)
        ]

    def propose_leaving(self, leader_end: int, now: int) -> Proposal | None:
        """The set without those who fell behind; or as it is, if the controller has yet to hear
        that a leader which was elected unclean has nothing left to recover."""
        if self.proposed is not None:
            return None
        left = tuple(
            each
            for each in self.isr
            if each == self._node_id or self._keeps_up(each, leader_end, now)
        )
        if left == self.isr and not self._recovering:
            return None
        return self._propose(left)

    def answered(self, proposal: Proposal, answer: Decided | ErrorCode) -> bool:
        """What became of a proposal; True if it should be sent again."""
        if proposal is not self.proposed:
            return False  # the metadata has overtaken it
        if isinstance(answer, Decided):
            current = self.leader_epoch, self.partition_epoch
            if answer.leader_epoch == current[0] and answer.partition_epoch >= current[1]:
                self._settle(answer.partition_epoch, answer.isr)
                self._recovering = False
            return False
        if answer in _NOT_APPLIED:
            self._settle(self.partition_epoch, self.isr)
            return False
        # Unknown to us, it may have been applied: both sets count until the metadata says more.
        return answer not in _OUTDATED

    def _keeps_up(self, node_id: int, leader_end: int, now: int) -> bool:
        follower = self.followers.get(node_id)
        return follower is not None and follower.keeps_up(leader_end, now, self._peers.lag_ms_max)

    def _may_join(self, follower: Follower, high_watermark: int) -> bool:
        return follower.end >= max(high_watermark, self.leader_start) and self._peers.may_join(
            follower
        )

    def _propose(self, isr: tuple[int, ...]) -> Proposal:
        self.proposed = Proposal(
            self.leader_epoch,
            self.partition_epoch,
            tuple((each, self._broker_epoch(each)) for each in isr),
        )
        return self.proposed

    def _broker_epoch(self, node_id: int) -> int:
        if node_id == self._node_id:
            own = self._peers.brokers.get(node_id)
            return UNKNOWN if own is None else own.epoch
        follower = self.followers.get(node_id)
        return UNKNOWN if follower is None else follower.broker_epoch

    def _settle(self, partition_epoch: int, isr: tuple[int, ...]) -> None:
        self.partition_epoch = partition_epoch
        self.isr = isr
        self.proposed = None
        self._joining = ()

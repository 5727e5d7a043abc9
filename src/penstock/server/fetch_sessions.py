"""Fetch sessions: a consumer names its partitions once, then only what changes. Pure.

A session is opened by epoch 0, carried on by epochs 1, 2, ... and closed by epoch -1. The cache
has a bound; when it is full of sessions in use, a new consumer simply gets none and names its
partitions each time. A follower names more than most, and pushes a consumer's session out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.server.follower_watch import FollowerWatch

if TYPE_CHECKING:
    from penstock.protocol.generated.fetch import FetchRequest
    from penstock.security.principal import Principal

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_FOLLOWER = -1
EPOCH_LAST = 2_147_483_647
EVICTION_MS_MIN = 120_000
"""A session that was used since may not be pushed out by a new one."""

PARTITIONS_MAX = 1_000_000
"""Partitions that all sessions together may name: each takes some 300 bytes."""

Key = tuple[str | bytes, int]
"""A partition as the client names it: by topic name up to version 12, by topic id after."""


class Wanted:
    """One partition that a fetch asks for, and what its session was last told about it."""

    __slots__ = (
        "fetch_offset",
        "follower_start",
        "high_watermark",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start",
        "size_max",
    )

    def __init__(
        self,
        key: Key,
        fetch_offset: int,
        size_max: int,
        leader_epoch: int,
        last_fetched_epoch: int,
        follower_start: int = -1,
    ) -> None:
        self.key = key
        self.fetch_offset = fetch_offset
        self.size_max = size_max
        self.leader_epoch = leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.follower_start = follower_start
        self.high_watermark = -1
        self.log_start = -1

    def ask(self, other: Wanted) -> None:
        """Take on a newer request for the same partition."""
        if other.leader_epoch != self.leader_epoch:
            # A follower drops what it hears about the epoch before.
            self.high_watermark = self.log_start = -1
        self.fetch_offset = other.fetch_offset
        self.size_max = other.size_max
        self.leader_epoch = other.leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch
        self.follower_start = other.follower_start


class FetchSession:
    """What one consumer or follower has named so far."""

    __slots__ = ("by_id", "epoch", "last_used", "owner", "session_id", "wanted", "watch")

    def __init__(
        self, session_id: int, by_id: bool, now: int, follower: int, owner: Principal | None
    ) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.owner = owner
        self.watch = None if follower == NO_FOLLOWER else FollowerWatch(follower)
        self.epoch = 1  # expected next
        self.last_used = now
        self.wanted: dict[Key, Wanted] = {}

    @property
    def follower(self) -> int:
        """Whose it is, if a broker's."""
        return NO_FOLLOWER if self.watch is None else self.watch.node_id

    def advance(self, now: int) -> None:
        """Expect the next epoch; it never comes back to 0, which opens sessions."""
        self.epoch = 1 if self.epoch == EPOCH_LAST else self.epoch + 1
        self.last_used = now

    def change(self, asked: Collection[Wanted], forgotten: Collection[Key]) -> None:
        """Add or update what is asked, drop what is forgotten."""
        for item in asked:
            known = self.wanted.get(item.key)
            if known is None:
                self.wanted[item.key] = item
            else:
                known.ask(item)
        for key in forgotten:
            self.wanted.pop(key, None)
        if self.watch is not None:
            self.watch.change((item.key for item in asked), forgotten)

    def send_to_back(self, key: Key) -> None:
        """A partition that just gave data comes last next time, so that none starves."""
        self.wanted[key] = self.wanted.pop(key)


class FetchPlan:
    """What one fetch reads: the partitions, and the session that it belongs to, if any."""

    __slots__ = ("by_key", "incremental", "session", "session_id")

    def __init__(
        self, wanted: Mapping[Key, Wanted], session: FetchSession | None, incremental: bool
    ) -> None:
        self.by_key = wanted
        self.session = session
        self.session_id = 0 if session is None else session.session_id
        self.incremental = incremental
        """Whether partitions with nothing new are left out of the answer."""

    @property
    def wanted(self) -> list[Wanted]:
        """In the order in which they are read."""
        return list(self.by_key.values())


class FetchSessions:
    """The sessions of one node."""

    def __init__(
        self, count_max: int, draw_id: Callable[[], int], partitions_max: int = PARTITIONS_MAX
    ) -> None:
        self._count_max = count_max
        self._partitions_max = partitions_max
        self._partitions = 0
        self._draw_id = draw_id
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        request: FetchRequest,
        version: int,
        now: int,
        follower: int = NO_FOLLOWER,
        owner: Principal | None = None,
    ) -> FetchPlan | ErrorCode:
        """Decide what this request reads, and keep its session up to date.

        A session is its `owner`'s alone: others, should they guess its number, can neither use nor
        end it.
        """
        asked = _asked(request, version)
        session_id, epoch = request.session_id, request.session_epoch
        session = self._sessions.get(session_id)
        if session is not None and session.owner != owner:
            session = None
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session is not None:
                self._drop(session_id)
            if epoch == FINAL_EPOCH:
                return FetchPlan(asked, None, False)
            session = self._open(version >= 13, len(asked), now, follower, owner)
            if session is not None:
                self._change(session, asked.values(), ())
                return FetchPlan(session.wanted, session, False)
            return FetchPlan(asked, None, False)
        if session is None or session.follower != follower:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        forgotten = _forgotten(request, version)
        return self._carry_on(session, epoch, asked.values(), forgotten, version, now)

    def _carry_on(
        self,
        session: FetchSession,
        epoch: int,
        asked: Collection[Wanted],
        forgotten: list[Key],
        version: int,
        now: int,
    ) -> FetchPlan | ErrorCode:
        session_id = session.session_id
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != (version >= 13):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        self._change(session, asked, forgotten)
        if not session.wanted:
            self._drop(session_id)  # nothing is left to carry on with
            return FetchPlan({}, None, False)
        if self._partitions > self._partitions_max:
            self._drop(session_id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND  # the client goes on without one
        session.advance(now)
        self._sessions[session_id] = self._sessions.pop(session_id)
        return FetchPlan(session.wanted, session, True)

    def _open(
        self, by_id: bool, size: int, now: int, follower: int, owner: Principal | None
    ) -> FetchSession | None:
        if follower != NO_FOLLOWER:
            self._drop_abandoned(follower, now)
        while (
            len(self._sessions) >= self._count_max or self._partitions + size > self._partitions_max
        ):
            if not self._evict(now, follower):
                return None
        session_id = self._draw_id()
        while session_id in self._sessions:
            session_id = self._draw_id()
        session = FetchSession(session_id, by_id, now, follower, owner)
        self._sessions[session_id] = session
        return session

    def _evict(self, now: int, follower: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now - oldest.last_used < EVICTION_MS_MIN:
            if follower == NO_FOLLOWER:
                return False
            consumers = (each for each in self._sessions.values() if each.watch is None)
            oldest = next(consumers, None)
            if oldest is None:
                return False
        self._drop(oldest.session_id)
        return True

    def _drop_abandoned(self, follower: int, now: int) -> None:
        """A follower that lost a connection does not come back to the session that it had there."""
        for session in list(self._sessions.values()):
            if session.follower == follower and now - session.last_used >= EVICTION_MS_MIN:
                self._drop(session.session_id)

    def _change(
        self, session: FetchSession, asked: Collection[Wanted], forgotten: Collection[Key]
    ) -> None:
        before = len(session.wanted)
        session.change(asked, forgotten)
        self._partitions += len(session.wanted) - before

    def forget(self, session_id: int) -> None:
        """Drop a session whose client was not told of it."""
        self._drop(session_id)

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.wanted)
            if session.watch is not None:
                session.watch.close()


def _asked(request: FetchRequest, version: int) -> dict[Key, Wanted]:
    """What is asked for, each partition once: the last word on it counts."""
    by_id = version >= 13
    asked: dict[Key, Wanted] = {}
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for item in topic.partitions:
            key = (name, item.partition)
            asked[key] = Wanted(
                key,
                item.fetch_offset,
                item.partition_max_bytes,
                item.current_leader_epoch,
                item.last_fetched_epoch,
                item.log_start_offset,
            )
    return asked


def _forgotten(request: FetchRequest, version: int) -> list[Key]:
    by_id = version >= 13
    return [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]

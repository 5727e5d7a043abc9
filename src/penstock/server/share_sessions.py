"""Share sessions: a member of a share group names its partitions once, then only changes. Pure.

A session is opened by epoch 0, carried on by epochs 1, 2, ... and closed by epoch -1. It belongs to
a member of a group, and ends with the connection that it was opened on: what the member holds is
for others then. Unlike the sessions of ordinary fetches there is no doing without one, so a member
that finds the table full is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.security.principal import Principal

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_LAST = 2_147_483_647

PARTITIONS_MAX = 1_000_000
"""Partitions that all sessions together may name."""

Key = tuple[bytes, int]
"""A partition by its topic's id."""


class Member(NamedTuple):
    """Whose session it is."""

    group_id: str
    member_id: str


class ShareSession:
    """What one member has named so far."""

    __slots__ = ("epoch", "line", "member", "owner", "partitions")

    def __init__(self, member: Member, owner: Principal | None, line: object) -> None:
        self.member = member
        self.owner = owner
        self.line = line
        """The connection that it ends with."""
        self.epoch = 1  # expected next
        self.partitions: dict[Key, None] = {}
        """In the order in which they are read."""

    def advance(self) -> None:
        """Expect the next epoch; it never comes back to 0, which opens sessions."""
        self.epoch = 1 if self.epoch == EPOCH_LAST else self.epoch + 1

    def send_to_back(self, key: Key) -> None:
        """A partition that just gave records comes last next time, so that none starves."""
        if key in self.partitions:
            del self.partitions[key]
            self.partitions[key] = None


class ShareSessions:
    """The sessions of one node."""

    def __init__(self, count_max: int, partitions_max: int = PARTITIONS_MAX) -> None:
        self._count_max = count_max
        self._partitions_max = partitions_max
        self._partitions = 0
        self._sessions: dict[Member, ShareSession] = {}
        self._by_line: dict[object, dict[Member, None]] = {}
        self._by_group: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def has_group(self, group_id: str) -> bool:
        """Whether any member of a group has a session here."""
        return group_id in self._by_group

    def begin(
        self,
        member: Member,
        epoch: int,
        asked: Iterable[Key],
        forgotten: Iterable[Key],
        line: object,
        owner: Principal | None = None,
    ) -> ShareSession | ErrorCode:
        """The session of a fetch, opened or carried on. One that is being closed comes back as it
        is: `end` it when what the request says is settled."""
        if epoch == INITIAL_EPOCH:
            return self._open(member, list(asked), line, owner)
        session = self.carry_on(member, epoch, owner)
        if isinstance(session, ErrorCode) or epoch == FINAL_EPOCH:
            return session
        if not self._change(session, asked, forgotten):
            self.end(session)
            return ErrorCode.SHARE_SESSION_NOT_FOUND  # the client begins another
        return session

    def carry_on(
        self, member: Member, epoch: int, owner: Principal | None = None
    ) -> ShareSession | ErrorCode:
        """The session of a request that changes no partitions; all but the last move it on."""
        if epoch == INITIAL_EPOCH:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session = self._sessions.get(member)
        if session is None or session.owner != owner:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                return ErrorCode.INVALID_SHARE_SESSION_EPOCH
            session.advance()
        return session

    def _open(
        self, member: Member, asked: list[Key], line: object, owner: Principal | None
    ) -> ShareSession | ErrorCode:
        known = self._sessions.get(member)
        if known is not None:
            if known.owner != owner:
                return ErrorCode.SHARE_SESSION_NOT_FOUND  # it is not theirs to replace
            # A client that lost count begins anew, and still holds what it held.
            self.end(known)
        if len(self._sessions) >= self._count_max:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = ShareSession(member, owner, line)
        self._sessions[member] = session
        self._by_line.setdefault(line, {})[member] = None
        self._by_group[member.group_id] += 1
        if not self._change(session, asked, ()):
            self.end(session)
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        return session

    def _change(
        self, session: ShareSession, asked: Iterable[Key], forgotten: Iterable[Key]
    ) -> bool:
        """Whether there is room for what is named now."""
        partitions = session.partitions
        before = len(partitions)
        for key in asked:
            partitions.setdefault(key, None)
        for key in forgotten:
            partitions.pop(key, None)
        self._partitions += len(partitions) - before
        return self._partitions <= self._partitions_max

    def end(self, session: ShareSession) -> None:
        """Forget a session, unless another has taken its place."""
        if self._sessions.get(session.member) is not session:
            return
        del self._sessions[session.member]
        self._partitions -= len(session.partitions)
        members = self._by_line[session.line]
        del members[session.member]
        if not members:
            del self._by_line[session.line]
        self._by_group[session.member.group_id] -= 1
        if not self._by_group[session.member.group_id]:
            del self._by_group[session.member.group_id]

    def end_of_line(self, line: object) -> list[ShareSession]:
        """A connection is gone: the sessions that went with it."""
        ended = [self._sessions[member] for member in self._by_line.get(line, ())]
        for session in ended:
            self.end(session)
        return ended

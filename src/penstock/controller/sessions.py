"""When each broker was last heard from. Kept in memory only: a new controller asks afresh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.ids import Millis

if TYPE_CHECKING:
    from collections.abc import Iterable


class Session:
    """What a broker's heartbeats said."""

    __slots__ = ("contact", "excused", "hung_up", "leaving_from", "metadata_offset")

    def __init__(self, contact: Millis) -> None:
        self.contact = contact
        self.hung_up: Millis | None = None
        """Since when it has no connection, unless it has spoken since."""
        self.excused = False
        self.metadata_offset = -1
        self.leaving_from: int | None = None
        """The offset that every other broker must have seen before this one may stop."""


class Sessions:
    """Heartbeat sessions by broker."""

    __slots__ = ("_by_broker", "hung_up_ms", "timeout_ms")

    def __init__(self, timeout_ms: int, hung_up_ms: int | None = None) -> None:
        """Who hung up has `hung_up_ms` to call again, instead of the whole timeout: a process that
        dies closes its connections, one that lives opens another with its next heartbeat."""
        self.timeout_ms = timeout_ms
        self.hung_up_ms = timeout_ms if hung_up_ms is None else min(hung_up_ms, timeout_ms)
        self._by_broker: dict[int, Session] = {}

    def begin(self, brokers: Iterable[int], now: Millis) -> None:
        """A controller takes over: grant every live broker one timeout to find it."""
        self._by_broker = {broker: Session(now) for broker in brokers}

    def touch(self, broker: int, now: Millis, metadata_offset: int | None = None) -> Session:
        session = self._by_broker.get(broker)
        if session is None:
            session = self._by_broker[broker] = Session(now)
        session.contact = now
        session.hung_up = None
        session.excused = False
        if metadata_offset is not None:
            session.metadata_offset = metadata_offset
        return session

    def restart(self, broker: int, now: Millis) -> None:
        """A new incarnation registered: what the old one said no longer counts."""
        self._by_broker[broker] = Session(now)

    def hang_up(self, broker: int, now: Millis) -> None:
        """The connection through which the broker sent its heartbeats is gone."""
        session = self._by_broker.get(broker)
        if session is not None and session.hung_up is None:
            session.hung_up = now

    def remove(self, broker: int) -> None:
        self._by_broker.pop(broker, None)

    def alive(self, broker: int, now: Millis) -> bool:
        session = self._by_broker.get(broker)
        return session is not None and now <= self._until(session)

    def excuse(self, now: Millis) -> None:
        """The controller itself was held up: what was said meanwhile waits to be read.

        Once for each silence: a controller that is always late must still notice the dead.
        """
        for session in self._by_broker.values():
            if not session.excused:
                session.contact = now
                session.hung_up = None
                session.excused = True

    def seen_by(self, brokers: Iterable[int]) -> int | None:
        """The lowest metadata offset that all of these brokers have applied; None if none are."""
        offsets = [self._by_broker[b].metadata_offset for b in brokers if b in self._by_broker]
        return min(offsets, default=None)

    def stale(self, brokers: Iterable[int], now: Millis) -> list[int]:
        """Those that have been silent for longer than the timeout, longest first."""
        silent = [b for b in brokers if not self.alive(b, now)]
        return sorted(silent, key=lambda b: s.contact if (s := self._by_broker.get(b)) else -1)

    def next_check(self, brokers: Iterable[int]) -> Millis | None:
        """When the next of these brokers will be stale if it stays silent."""
        ends = [self._until(s) for b in brokers if (s := self._by_broker.get(b)) is not None]
        return Millis(min(ends) + 1) if ends else None

    def _until(self, session: Session) -> int:
        """The last moment at which it counts as alive."""
        end = session.contact + self.timeout_ms
        return end if session.hung_up is None else min(end, session.hung_up + self.hung_up_ms)

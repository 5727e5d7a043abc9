"""Connections that have still to prove who they are: they are few, and they have little time.

Where there are too many, those who came first give way: an honest client proves who it is within
moments of coming in. An address cannot crowd out the others: beyond its share its own give way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.net.connection import Connection

SECONDS_MAX = 15.0
"""How long a client may take to log in."""

BYTES_MAX = 64 * 1024 * 1024
"""Receive memory for all of them."""

COUNT_MAX = 1000
COUNT_PER_ADDRESS_MAX = 200


class Strangers:
    """Those of one listener."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        refused: Callable[[str, str], None],
        seconds_max: float = SECONDS_MAX,
        count_max: int = COUNT_MAX,
        count_per_address_max: int = COUNT_PER_ADDRESS_MAX,
    ) -> None:
        """`refused` is told of an address whose connection was closed, and why."""
        self._loop = loop
        self._refused = refused
        self._seconds_max = seconds_max
        self._count_max = count_max
        self._count_per_address_max = count_per_address_max
        self._since: dict[Connection, float] = {}  # the oldest first
        self._by_address: dict[str, dict[Connection, None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._since

    def add(self, connection: Connection) -> None:
        """Somebody has come."""
        address = connection.peer[0]
        self._since[connection] = self._loop.time()
        own = self._by_address.setdefault(address, {})
        own[connection] = None
        if len(own) > self._count_per_address_max:
            self._turn_out(
                next(iter(own)), "too many connections of one address have not logged in"
            )
        elif len(self._since) > self._count_max:
            self._turn_out(next(iter(self._since)), "too many connections have not logged in")
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds_max, self._turn_out_slow)

    def forget(self, connection: Connection) -> None:
        """One of them is known now, or gone."""
        if self._since.pop(connection, None) is None:
            return
        address = connection.peer[0]
        own = self._by_address[address]
        del own[connection]
        if not own:
            del self._by_address[address]

    def close(self) -> None:
        """The listener stops."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def too_greedy(self) -> bool:
        """Whether they hold more receive memory than strangers may."""
        return sum(each.held_bytes for each in self._since) > BYTES_MAX

    def greediest(self) -> Connection | None:
        """Who holds most of the receive memory, if anybody holds some."""
        found = max(self._since, key=lambda each: each.held_bytes, default=None)
        return found if found is not None and found.held_bytes else None

    def _turn_out(self, connection: Connection, reason: str) -> None:
        self.forget(connection)
        self._refused(connection.peer[0], reason)
        connection.abort()

    def _turn_out_slow(self) -> None:
        self._timer = None
        oldest = self._loop.time() - self._seconds_max
        while self._since:
            first = next(iter(self._since))
            since = self._since[first]
            if since > oldest:
                self._timer = self._loop.call_later(since - oldest, self._turn_out_slow)
                return
            self._turn_out(first, f"not logged in after {self._seconds_max:g} s")

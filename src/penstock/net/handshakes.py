"""Clients of a TLS listener that have not shaken hands yet: who they are is unknown, so they are
few, and they have little time."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.net.tls import Encrypted, ServerTls

if TYPE_CHECKING:
    from penstock.net.connection import Connection

SECONDS_MAX = 5.0
"""How long a handshake may take; an honest one takes two ways there and back."""

UNFINISHED_MAX = 1000
"""Of a listener, at once: each holds some 50 KB until it is done or given up."""

UNFINISHED_PER_HOST_MAX = 200

STEPS_AT_ONCE = 2
"""Steps of handshakes in one turn of the event loop, of up to a millisecond each: in a storm of
newcomers, those who are in wait behind two of them."""

RECEIVED_BYTES_MAX = 128 * 1024
"""Encrypted bytes that are taken from a socket at a time."""


class Handshakes:
    """The unfinished ones of a listener, and what all of its encrypted connections share."""

    def __init__(
        self,
        tls: ServerTls,
        loop: asyncio.AbstractEventLoop,
        make_connection: Callable[[], Connection],
    ) -> None:
        self.loop = loop
        self.room = memoryview(bytearray(RECEIVED_BYTES_MAX))
        """Where encrypted bytes arrive: they are decrypted before anything else is received."""
        self._tls = tls
        self._make_connection = make_connection
        self._unfinished: dict[Encrypted, asyncio.TimerHandle] = {}  # the oldest first
        self._by_host: Counter[str] = Counter()
        self._queue: dict[Encrypted, None] = {}
        self._turn_planned = False

    def __len__(self) -> int:
        return len(self._unfinished)

    def begin(
        self, client: Encrypted, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
    ) -> ssl.SSLObject:
        """A client has come: give it the keys of now, and little time.

        Where there are too many, those that took longest give way: honest ones are long done. One
        host cannot take all places: beyond its share its own new ones are refused.
        """
        timer = self.loop.call_later(SECONDS_MAX, self._give_up, client, "too slow to shake hands")
        self._unfinished[client] = timer
        self._by_host[client.host] += 1
        if self._by_host[client.host] > UNFINISHED_PER_HOST_MAX:
            self._give_up(client, "too many unfinished handshakes of one host")
        elif len(self._unfinished) > UNFINISHED_MAX:
            self._give_up(next(iter(self._unfinished)), "too many unfinished handshakes")
        return self._tls.context().wrap_bio(incoming, outgoing, server_side=True)

    def queue(self, client: Encrypted) -> None:
        """A client has said something: it goes on shaking hands when it is its turn."""
        self._queue[client] = None
        self._plan_turn()

    def _plan_turn(self) -> None:
        if self._queue and not self._turn_planned:
            self._turn_planned = True
            self.loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn_planned = False
        steps = 0
        try:
            while self._queue and steps < STEPS_AT_ONCE:
                client = next(iter(self._queue))
                del self._queue[client]
                client.shake_hands()
                steps += 1
        finally:
            self._plan_turn()

    def done(self, client: Encrypted) -> Connection:
        """A client has shaken hands: its connection begins."""
        self.forget(client)
        return self._make_connection()

    def failed(self, client: Encrypted, reason: str) -> None:
        """A client could not be let in, or broke TLS's rules later."""
        self.forget(client)
        self._tls.failed(client.host, reason)

    def forget(self, client: Encrypted) -> None:
        """A client is gone, or no longer unfinished."""
        self._queue.pop(client, None)
        timer = self._unfinished.pop(client, None)
        if timer is None:
            return
        timer.cancel()
        self._by_host[client.host] -= 1
        if not self._by_host[client.host]:
            del self._by_host[client.host]

    def close(self) -> None:
        """Give all of them up: the listener stops."""
        for client in list(self._unfinished):
            self.forget(client)
            client.abort()

    def _give_up(self, client: Encrypted, reason: str) -> None:
        self.failed(client, reason)
        client.abort()

"""Taking connections off a listening socket: a few at a time, and none while there is no room.

The event loop would accept whatever comes. In a storm, those who work would wait behind hundreds of
newcomers; here they wait behind a few. Whoever is not accepted waits in the kernel's own queue.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.net.admission import Admission

log = logging.getLogger("penstock.net")

ACCEPTED_AT_ONCE = 4
"""New connections in one turn of the event loop."""

HELD_MAX = 1000
"""Sockets that are kept for a while before they are turned away; more go at once."""

PAUSE_SECONDS = 1.0
"""After the system could not give another descriptor."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts for one listener."""

    def __init__(
        self,
        listener: str,
        sock: socket.socket,
        admission: Admission,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        loop: asyncio.AbstractEventLoop,
        refused: Callable[[str, str], None],
    ) -> None:
        """`refused` is told of an address that was turned away, and why."""
        self._listener = listener
        self._sock = sock
        self._admission = admission
        self._make_protocol = make_protocol
        self._loop = loop
        self._refused = refused
        self._arriving: set[asyncio.Task[object]] = set()
        self._held: dict[socket.socket, asyncio.TimerHandle] = {}
        self._pause: asyncio.TimerHandle | None = None
        self._in_hand: tuple[socket.socket, str] | None = None  # accepted, and made to wait
        self._accepting = False
        self._closed = False

    def start(self, backlog: int) -> None:
        self._sock.setblocking(False)
        self._sock.listen(backlog)
        self._admission.on_room.append(self._go_on)
        self._go_on()

    def close(self) -> None:
        """Accept nobody any more. Those who are about to come in still do: to cancel them half way
        would leave a socket behind that nobody closes."""
        self._closed = True
        self._stop_accepting()
        if self._go_on in self._admission.on_room:
            self._admission.on_room.remove(self._go_on)
        if self._pause is not None:
            self._pause.cancel()
        if self._in_hand is not None:
            self._in_hand[0].close()
        for held, timer in self._held.items():
            timer.cancel()
            held.close()
        self._held.clear()
        self._sock.close()

    # -- accepting ------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Accept, unless there is a reason to wait: a pause, or no room."""
        if self._closed or self._accepting or self._pause is not None:
            return
        if self._has_room():
            self._accepting = True
            self._loop.add_reader(self._sock.fileno(), self._accept)

    def _stop_accepting(self) -> None:
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._sock.fileno())

    def _has_room(self) -> bool:
        return self._admission.has_room(self._listener, len(self._arriving))

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if not self._has_room():
                self._stop_accepting()
                return
            try:
                sock, name = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                # One whose network failed is gone; where descriptors are used up, others wait too.
                log.error("cannot accept on %s: %s", self._listener, problem.strerror)
                if problem.errno in _EXHAUSTED:
                    self._rest(PAUSE_SECONDS)
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            address = name[0].removeprefix("::ffff:")
            wait_ms = self._admission.pace_ms(self._listener, self._now())
            if wait_ms:
                self._in_hand = (sock, address)
                self._rest(wait_ms / 1000)
                return
            self._let_in(sock, address)

    def _rest(self, seconds: float) -> None:
        self._stop_accepting()
        self._pause = self._loop.call_later(seconds, self._rested)

    def _rested(self) -> None:
        self._pause = None
        in_hand, self._in_hand = self._in_hand, None
        if in_hand is not None:
            self._let_in(*in_hand)
        self._go_on()

    def _now(self) -> int:
        return int(self._loop.time() * 1000)

    # -- one newcomer ---------------------------------------------------------------------------

    def _let_in(self, sock: socket.socket, address: str) -> None:
        admission = self._admission
        wait_ms = admission.turn_away_ms(self._listener, address, self._now())
        if wait_ms:
            self._refused(address, "its connection_creation_rate is exceeded")
            self._hold(sock, wait_ms / 1000)
        elif admission.crowded(address):
            self._refused(address, "max.connections.per.ip reached")
            sock.close()
        else:
            task = self._loop.create_task(self._connect(sock))
            self._arriving.add(task)
            task.add_done_callback(self._arrived)

    def _arrived(self, task: asyncio.Task[object]) -> None:
        self._arriving.discard(task)  # until now it may have counted twice
        self._go_on()

    async def _connect(self, sock: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, sock)
        except OSError as problem:  # it has left already
            log.debug("a connection on %s was gone before it began: %s", self._listener, problem)
            sock.close()

    def _hold(self, sock: socket.socket, seconds: float) -> None:
        """Keep a socket, so that its owner does not come again at once, and then close it."""
        if len(self._held) >= HELD_MAX:
            sock.close()
            return
        self._held[sock] = self._loop.call_later(seconds, self._let_go, sock)

    def _let_go(self, sock: socket.socket) -> None:
        del self._held[sock]
        sock.close()

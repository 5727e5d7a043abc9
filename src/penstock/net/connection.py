"""One client's connection: frames in, replies out, in request order.

Requests are served one after another. One that has to wait (a long poll, a replicated write) is
a future; until it is done, only requests that the service lets overlap are begun, and every reply
leaves in the order of its request. Nothing is read while the client does not take its replies.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from asyncio import Future
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from penstock.net.framing import FrameAssembly, FrameError, frame_length
from penstock.net.late_reply import LateReply
from penstock.net.outbox import Outbox, Part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.net.listener import Listener

log = logging.getLogger("penstock.net")

SLOTS_MAX = 256
"""Replies that one connection may wait for at once; more requests are not read."""

RUN_MAX = 64
"""Requests that are offered together at most."""

Reply = bytearray | list[Part]
"""A whole response frame: as bytes, or as parts of which some are slices of files."""


_LATER = (Future, LateReply)


def _is_here(host: str) -> bool:
    """Whether an address is this machine's own, without a network on the way."""
    return host.startswith("127.") or host == "::1"


class CloseConnection(Exception):
    """The peer broke the protocol, or asked for what only closing can answer."""


class Service(Protocol):
    """What a listener hands its frames to."""

    def serve(
        self, connection: Connection, frame: memoryview
    ) -> Reply | Future[Reply | None] | LateReply[Reply] | None:
        """Serve one request. The frame's bytes are gone when this returns.

        None means that the request has no reply. Raises CloseConnection.
        """

    def serve_run(
        self, connection: Connection, frames: list[memoryview]
    ) -> Sequence[Reply | LateReply[Reply]]:
        """Serve requests that may overlap and came together, as if they came one by one.

        The replies to as many of them as it is any use to serve so, from the first on.
        """

    def may_overlap(self, frame: memoryview) -> bool:
        """Whether this request may begin while earlier ones of its connection still wait."""

    def gate(self, connection: Connection) -> Any:
        """What a new connection has to pass; None leaves it open. Raises CloseConnection.

        It is the service's own, but for `passes(now)`, which says whether they are in, and
        `on_entry()`, which it calls when they are.
        """


class _Slot:
    """A reply's place in the queue."""

    __slots__ = ("future", "ready", "reply")

    def __init__(self) -> None:
        self.future: Future[Reply | None] | LateReply[Reply] | None = None
        self.reply: Reply | None = None
        self.ready = False


class Connection(asyncio.BufferedProtocol):
    """The protocol object behind one accepted socket."""

    __slots__ = (
        "_assembly",
        "_closing",
        "_halted",
        "_listener",
        "_muted",
        "_outbox",
        "_overlapping",
        "_reading",
        "_service",
        "_slots",
        "gate",
        "last_active",
        "listener_name",
        "on_lost",
        "peer",
        "transport",
    )

    transport: asyncio.Transport
    _outbox: Outbox

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._service = listener.service
        self._assembly = FrameAssembly(listener.pool, listener.limits.frame_bytes_max)
        self._slots: deque[_Slot] = deque()
        self._overlapping = True  # whether all that wait may be overlapped
        self._reading = True
        self._closing = False
        self._muted: asyncio.TimerHandle | None = None  # ends a time without reading
        self._halted = False  # closing or muted: one question after each request
        self.listener_name = listener.name
        self.last_active = 0.0
        self.peer: tuple[str, int] = ("", 0)
        self.gate: Any = None
        """What the service keeps of who this is; None if it has nothing to ask."""
        self.on_lost: Callable[[], None] | None = None
        """Told, once, when the connection is gone."""

    # -- asyncio's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not a check: uvloop's transports do what asyncio's do and inherit nothing of them.
        self.transport = cast(asyncio.Transport, transport)
        secure = transport.get_extra_info("ssl_object") is not None
        sock: socket.socket | None = None if secure else transport.get_extra_info("socket")
        self._outbox = Outbox(self.transport, sock, self._listener.loop, self._writable, self.abort)
        try:
            self._greet()
        except Exception as problem:  # noqa: BLE001 - without a gate it would be open to all
            self._refuse(problem)

    def _greet(self) -> None:
        name = self.transport.get_extra_info("peername")
        if isinstance(name, tuple):
            # A socket for both families shows IPv4 clients as IPv6: rules know the plain form.
            self.peer = (name[0].removeprefix("::ffff:"), name[1])
        if self._listener.limits.send_buffer_bytes <= 0 and _is_here(self.peer[0]):
            self._outbox.serve_nearby()
        self.last_active = self._listener.loop.time()
        self._listener.admit(self)
        self.gate = self._service.gate(self)
        if self.gate is not None and not self.gate.passes(self.last_active):
            self.gate.on_entry = self._become_known
            self._assembly.frame_bytes_max = self._listener.limits.stranger_frame_bytes_max
            self._listener.strangers.add(self)

    def _become_known(self) -> None:
        """Whoever it is has proved it: what is granted to strangers no longer counts."""
        self._assembly.frame_bytes_max = self._listener.limits.frame_bytes_max
        self._listener.strangers.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._assembly.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._cut(self._assembly.take(nbytes))

    def eof_received(self) -> bool:
        # A client may close its sending half and still read what it asked for.
        self._closing = self._halted = True
        return not self.idle

    def pause_writing(self) -> None:
        self._outbox.congested = True
        self._listener.owe(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self.last_active = self._listener.loop.time()
        self._outbox.congested = False
        self._listener.pool.unsent.settle(self)
        self._outbox.pump()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._closing = self._halted = True
        self._end_mute()
        self._assembly.drop()
        slots, self._slots = self._slots, deque()
        for slot in slots:
            if slot.future is not None:
                slot.future.cancel()
        self._outbox.forget()
        self._listener.pool.unsent.settle(self)
        self._listener.forget(self)
        if self.on_lost is not None:
            self.on_lost()
            self.on_lost = None

    # -- requests ---------------------------------------------------------------------------

    def _cut(self, view: memoryview) -> None:
        at, end = 0, len(view)
        bytes_max = self._assembly.frame_bytes_max
        until = 0.0
        corked = False
        together = True  # until it was tried in vain
        try:
            while end - at >= 4:
                frame_end = at + 4 + frame_length(view, at, bytes_max)
                if frame_end > end:
                    break
                frame = view[at + 4 : frame_end]
                if (self._slots or not self._outbox.empty) and not self._may_serve(frame):
                    self._pause()
                    break
                reached = 0
                if frame_end < end:
                    corked = True
                    self._outbox.cork()
                    if together:
                        reached = self._serve_run(view, at)
                        together = reached > 0
                if reached:
                    at = reached
                else:
                    at = frame_end
                    self._serve(frame)
                if self._halted:
                    if self._closing:
                        return
                    break  # muted
                if at == end:
                    break
                until = until or self._listener.turns.until(self.last_active)
                if self.last_active > until:
                    self._pause()
                    self._listener.loop.call_soon(self._writable)
                    break
            if at != end or self._assembly.waiting:
                self._assembly.keep(view[at:])
                self._listener.watch_memory(self)
        except (FrameError, CloseConnection) as problem:
            self._hang_up(problem)
        except Exception as problem:  # noqa: BLE001 - told in the log; the others are served on
            self._refuse(problem)
        finally:
            if corked:
                self._outbox.uncork()

    def _may_serve(self, frame: memoryview) -> bool:
        if not self._outbox.empty:
            # The client does not take its replies, or a slice comes from a cold disk: replies
            # behind it would pile up.
            return False
        return (
            self._overlapping and len(self._slots) < SLOTS_MAX and self._service.may_overlap(frame)
        )

    def _serve_run(self, view: memoryview, at: int) -> int:
        """Serve what can be served together from `at` on; where that ends, or 0 if nothing was."""
        end, bytes_max = len(view), self._assembly.frame_bytes_max
        frames: list[memoryview] = []
        ends: list[int] = []
        for _ in range(min(RUN_MAX, SLOTS_MAX - len(self._slots))):
            if end - at < 4:
                break
            begin = at + 4
            try:
                at = begin + frame_length(view, at, bytes_max)
            except FrameError:
                break  # it is told when those before it are served
            frame = view[begin:at]
            if at > end or not self._service.may_overlap(frame):
                break
            frames.append(frame)
            ends.append(at)
        if len(frames) < 2:
            return 0
        self.last_active = self._listener.loop.time()
        replies = self._service.serve_run(self, frames)
        for frame, reply in zip(frames, replies, strict=False):
            self._answer(frame, reply)
        return ends[len(replies) - 1] if replies else 0

    def _serve(self, frame: memoryview) -> None:
        self.last_active = self._listener.loop.time()
        served = self._service.serve(self, frame)
        if type(served) is bytearray and not self._slots:
            self._outbox.send(served)
        elif served is not None:
            self._answer(frame, served)

    def _answer(
        self, frame: memoryview, served: Reply | Future[Reply | None] | LateReply[Reply]
    ) -> None:
        """Send a reply, or keep its place until it is there."""
        if isinstance(served, _LATER):
            first = not self._slots
            self._overlapping = (first or self._overlapping) and self._service.may_overlap(frame)
            slot = _Slot()
            slot.future = served
            self._slots.append(slot)
            settle = self._settle if isinstance(served, Future) else self._settle_at_once
            served.add_done_callback(partial(settle, slot))
        elif self._slots:
            slot = _Slot()
            slot.reply = served
            slot.ready = True
            self._slots.append(slot)
        else:
            self._outbox.send(served)

    def _settle(self, slot: _Slot, done: Future[Reply | None] | LateReply[Reply]) -> None:
        if self._fill(slot, done):
            self._writable()

    def _settle_at_once(self, slot: _Slot, done: LateReply[Reply]) -> None:
        """The same for who is in the middle of something: no request begins before that is over."""
        if self._fill(slot, done):
            if self._closing or self._assembly.waiting:
                self._listener.loop.call_soon(self._writable)
            else:
                self._writable()

    def _fill(self, slot: _Slot, done: Future[Reply | None] | LateReply[Reply]) -> bool:
        """Send what the place was kept for, and what waits behind it; False if all is over."""
        if self.transport.is_closing():
            return False
        if done.cancelled():
            # Not by this connection's end: nothing would ever fill the place in the queue.
            self._refuse(CloseConnection("what a request waited for was given up"))
            return False
        problem = done.exception()
        if problem is not None:
            self._refuse(problem)
            return False
        self.last_active = self._listener.loop.time()
        slot.reply = done.result()
        slot.ready = True
        slots = self._slots
        while slots and slots[0].ready:
            reply = slots.popleft().reply
            if reply is not None:
                self._outbox.send(reply)
        return True

    def _writable(self) -> None:
        """Go on with what was put aside, or finish closing, now that something left."""
        if self._closing:
            if self.idle:
                self.transport.close()
            return
        if self._muted is not None:
            return
        if self._assembly.waiting and not self._reading:
            self._resume()
            self._cut(self._assembly.take(0))
        else:
            self._resume()

    # -- flow -------------------------------------------------------------------------------

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self.transport.pause_reading()

    def _resume(self) -> None:
        if not self._reading and not self.transport.is_closing():
            self._reading = True
            self.transport.resume_reading()

    def mute(self, seconds: float) -> None:
        """Read nothing more for so long: its user has used up what they may.

        Replies still leave. A connection that is muted for longer than it may be idle is closed
        as idle.
        """
        if self._closing:
            return
        loop = self._listener.loop
        until = loop.time() + seconds
        if self._muted is not None:
            if self._muted.when() >= until:
                return
            self._muted.cancel()
        self._muted = loop.call_at(until, self._unmute)
        self._halted = True
        self._pause()

    def _unmute(self) -> None:
        self._muted = None
        self._halted = self._closing
        self._writable()

    def _end_mute(self) -> None:
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None

    @property
    def more_follow(self) -> bool:
        """Whether the request that is being served came together with others."""
        return self._outbox.corked

    @property
    def held_bytes(self) -> int:
        """Receive memory that this connection holds."""
        return self._assembly.held_bytes

    @property
    def missing_bytes(self) -> int:
        """What the frame that is being received still lacks; 0 if that is not known."""
        return self._assembly.missing

    @property
    def idle(self) -> bool:
        """Whether no request is being served; part of one does not count as being served."""
        return not self._slots and self._outbox.empty

    @property
    def silent(self) -> bool:
        """Whether only the client can make something happen: by asking, or by reading replies.

        One that closed its sending half may be gone altogether, and what it waits for may take
        as long as it asked for: it counts as silent too.
        """
        return not self._slots or self._closing

    def drain(self) -> None:
        """Take no new request, answer those that wait, then close."""
        if self._closing:
            return
        self._closing = self._halted = True
        self._pause()
        if self.idle:
            self.transport.close()

    def abort(self) -> None:
        """Close now, whatever waits."""
        self._closing = self._halted = True
        self._assembly.drop()
        self.transport.abort()

    def _hang_up(self, problem: Exception) -> None:
        """Close on a peer that broke the protocol, once what it had asked before is answered: a
        producer that is not told of a batch that was stored sends it again."""
        self._complain(problem)
        self._closing = self._halted = True
        self._assembly.drop()
        self._outbox.uncork()
        if self._slots:
            self._pause()  # whoever fills the last of them closes
        else:
            self.transport.close()  # replies already handed over still leave

    def _complain(self, problem: BaseException) -> None:
        host, port = self.peer
        tell = self._listener.complaints.tell
        tell(logging.INFO, "closing %s:%s on %s: %s", host, port, self.listener_name, problem)

    def _refuse(self, problem: BaseException) -> None:
        if isinstance(problem, FrameError | CloseConnection):
            self._complain(problem)
        else:
            host, port = self.peer
            log.error("closing %s:%s after our own fault", host, port, exc_info=problem)
        self._closing = self._halted = True
        self._assembly.drop()
        self._outbox.uncork()
        self.transport.close()  # replies already handed over still leave

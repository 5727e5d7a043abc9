"""A network between simulated processes: streams of bytes that are slow, cut, and torn down.

It behaves as TCP does. The bytes of a connection arrive in their order or not at all; those of
different connections overtake each other. Where a link is cut, bytes wait until it heals, and
whoever waits for them may give up long before. A process that is killed hangs up; a machine that
loses its power does not, and is found out by those who write to it once it is back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.testing.sim.loop import SimulatedLoop
from penstock.testing.sim.process import CURRENT, Process

SYN_AGAIN_SECONDS = 1.0
RETRANSMIT_SECONDS_MAX = 0.4

Factory = Callable[[], asyncio.BaseProtocol]


@dataclass
class Weather:
    """How well the network does at present."""

    delay_ms_max: float = 2.0
    reset: float = 0.0
    """The chance that a connection breaks when something is written to it."""


class SimulatedNetwork:
    """All hosts, what listens on them, and who reaches whom."""

    def __init__(self, loop: SimulatedLoop, dice: random.Random) -> None:
        self.weather = Weather()
        self.slow: dict[str, float] = {}
        """Hosts behind a slow link, and how many milliseconds it adds."""
        self._loop = loop
        self._dice = dice
        self._cut: dict[tuple[str, str], None] = {}
        self._listening: dict[tuple[str, int], tuple[Process, Factory]] = {}
        self._running: dict[str, Process] = {}
        self._pipes: dict[_Pipe, None] = {}
        loop.network = self

    # -- hosts --------------------------------------------------------------------------------

    def boot(self, process: Process) -> None:
        """A process begins to run on its host."""
        self._running[process.host] = process

    def listen(self, process: Process, port: int, factory: Factory) -> None:
        """Let connections in; each gets a protocol of its own."""
        self._listening[process.host, port] = process, factory

    def stop_listening(self, process: Process, port: int) -> None:
        held = self._listening.get((process.host, port))
        if held is not None and held[0] is process:
            del self._listening[process.host, port]

    def bury(self, process: Process, *, power: bool) -> None:
        """A process ended. Its kernel hangs up for it, unless the power went with it."""
        self._running.pop(process.host, None)
        for key, (owner, _) in list(self._listening.items()):
            if owner is process:
                del self._listening[key]
        for pipe in list(self._pipes):
            if process in (pipe.source, pipe.target):
                del self._pipes[pipe]
                if pipe.source is process and not power:
                    self._loop.call_at(
                        self.arrival(pipe), pipe.hang_up, context=pipe.target.context
                    )

    # -- links --------------------------------------------------------------------------------

    @property
    def cuts(self) -> list[tuple[str, str]]:
        return list(self._cut)

    def cut(self, source: str, target: str) -> None:
        """Nothing gets from one host to the other; the way back is another link."""
        self._cut[source, target] = None

    def heal(self) -> None:
        """Everybody reaches everybody; what was on its way arrives after all."""
        self._cut.clear()
        for pipe in list(self._pipes):
            pipe.go_on(self._dice.uniform(0, RETRANSMIT_SECONDS_MAX))

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def delay(self, source: str, target: str) -> float:
        """Seconds that a message takes."""
        if source == target:
            return 0.00005
        extra = self.slow.get(source, 0.0) + self.slow.get(target, 0.0)
        return (0.1 + self._dice.random() * self.weather.delay_ms_max + extra) / 1000

    def arrival(self, pipe: _Pipe) -> float:
        """When what is written now arrives: never before what was written earlier."""
        when = self._loop.now + self.delay(pipe.source.host, pipe.target.host)
        pipe.last_arrival = max(pipe.last_arrival, when)
        return pipe.last_arrival

    def answers(self, source: str, target: str) -> bool:
        """Whether a host would answer another one, whatever runs there."""
        return (
            target in self._running
            and not self.is_cut(source, target)
            and not self.is_cut(target, source)
        )

    def breaks(self) -> bool:
        return self.weather.reset > 0 and self._dice.random() < self.weather.reset

    # -- connecting ---------------------------------------------------------------------------

    async def connect(
        self, factory: Factory, host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """As `loop.create_connection`: waits while the way is cut, refused where nobody listens."""
        caller = CURRENT.get()
        assert caller is not None, "only a process can connect"
        while True:
            await asyncio.sleep(self.delay(caller.host, host) + self.delay(host, caller.host))
            if not self.is_cut(caller.host, host) and not self.is_cut(host, caller.host):
                if (host, port) in self._listening:
                    break
                if host in self._running or self._dice.random() < 0.5:
                    raise ConnectionRefusedError(f"nobody listens on {host}:{port}")
            await asyncio.sleep(SYN_AGAIN_SECONDS)
        server, accept = self._listening[host, port]
        near = SimulatedTransport(self._loop, self, caller, f"{caller.host}", server.host)
        far = SimulatedTransport(self._loop, self, server, f"{server.host}", caller.host)
        near.join(far)
        protocol = factory()
        near.set_protocol(protocol)
        protocol.connection_made(near)
        self._loop.call_soon(_accept, far, accept, context=server.context)
        return near, protocol

    def open_pipe(self, pipe: _Pipe) -> None:
        self._pipes[pipe] = None

    def forget(self, pipe: _Pipe) -> None:
        self._pipes.pop(pipe, None)


def _accept(transport: SimulatedTransport, factory: Factory) -> None:
    protocol = factory()
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    transport.begin()


class _Pipe:
    """One direction of a connection."""

    __slots__ = (
        "_event",
        "_loop",
        "_network",
        "_packet",
        "end",
        "last_arrival",
        "source",
        "stalled",
        "start",
        "target",
    )

    def __init__(
        self,
        network: SimulatedNetwork,
        loop: SimulatedLoop,
        start: SimulatedTransport,
        end: SimulatedTransport,
    ) -> None:
        self._network = network
        self._loop = loop
        self.start = start
        self.end = end
        """Where the bytes come out."""
        self.source = start.process
        self.target = end.process
        self.last_arrival = 0.0
        self.stalled: list[bytes | bytearray | None] = []
        """What waits for the link to heal; None is the end of the stream."""
        self._event = -1
        self._packet = bytearray()

    def write(self, data: bytes) -> None:
        """Bring bytes to the other side; those that are written at once arrive at once."""
        if self._event == self._loop.events:
            self._packet += data
            return
        self._event = self._loop.events
        self._packet = bytearray(data)
        self.carry(self._packet)

    def carry(self, data: bytes | bytearray | None) -> None:
        """Bring a packet, or the end, to the other side."""
        when = self._network.arrival(self)
        if self.target.alive:
            self._loop.call_at(when, self._arrive, data, context=self.target.context)
        elif self._network.answers(self.source.host, self.target.host):
            # Another process runs there now, and its kernel knows of no such connection.
            broken = ConnectionResetError("the other side was restarted")
            self._loop.call_at(when, self.start.lose, broken, context=self.source.context)

    def _arrive(self, data: bytes | bytearray | None) -> None:
        if self.stalled or self._network.is_cut(self.source.host, self.target.host):
            self.stalled.append(data)
        elif data is None:
            self._network.forget(self)
            self._network.forget(self.end.out)
            self.end.lose(None)
        else:
            self.end.receive(bytes(data))

    def hang_up(self) -> None:
        self._arrive(None)

    def go_on(self, wait: float) -> None:
        stalled, self.stalled = self.stalled, []
        self.last_arrival = max(self.last_arrival, self._loop.now + wait)
        for data in stalled:
            self.carry(data)


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self,
        loop: SimulatedLoop,
        network: SimulatedNetwork,
        process: Process,
        own: str,
        other: str,
    ) -> None:
        super().__init__({"peername": (other, 0), "sockname": (own, 0)})
        self.process = process
        self._loop = loop
        self._network = network
        self._protocol: Any = None
        self.out: _Pipe
        self._open = True
        self._closing = False
        self._reading = True
        self._begun = False
        self._waiting: list[bytes] = []

    def join(self, other: SimulatedTransport) -> None:
        """Become the two ends of one connection."""
        for one, another in ((self, other), (other, self)):
            pipe = one.out = _Pipe(self._network, self._loop, one, another)
            self._network.open_pipe(pipe)
        self._begun = True

    def begin(self) -> None:
        """The protocol is there: it gets what came before it."""
        self._begun = True
        self._deliver()

    # -- what arrives -------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        if not self._open:
            # Nobody is here any more: the other side learns it, as by a reset.
            if self.process.alive:
                self.out.carry(None)
            return
        self._waiting.append(data)
        self._deliver()

    def _deliver(self) -> None:
        while self._waiting and self._reading and self._begun and self._open:
            data = self._waiting.pop(0)
            protocol = self._protocol
            if isinstance(protocol, asyncio.BufferedProtocol):
                self._fill(protocol, data)
            else:
                protocol.data_received(data)

    def _fill(self, protocol: asyncio.BufferedProtocol, data: bytes) -> None:
        at = 0
        while at < len(data) and self._open:
            room = memoryview(protocol.get_buffer(-1))
            count = min(len(room), len(data) - at)
            room[:count] = data[at : at + count]
            at += count
            protocol.buffer_updated(count)
            if not self._reading and at < len(data):
                self._waiting.insert(0, data[at:])
                return

    def lose(self, problem: Exception | None) -> None:
        """The connection is gone, as far as this end is concerned."""
        if self._open:
            self._open = False
            self._closing = True
            if self._protocol is not None:
                self._loop.call_soon(
                    self._protocol.connection_lost, problem, context=self.process.context
                )

    # -- asyncio's side -----------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if not self._open or self._closing or not self.process.alive:
            return
        if self._network.breaks():
            self.out.carry(None)
            self.lose(ConnectionResetError("the connection broke"))
            return
        self.out.write(data)

    def close(self) -> None:
        if not self._closing and self.process.alive:
            self._closing = True
            self.out.carry(None)
            self.lose(None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            if self._waiting:
                self._loop.call_soon(self._deliver)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is always room."""

    def get_write_buffer_size(self) -> int:
        return 0

"""A machine with a Penstock node on it: the real node, on simulated ports."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

from penstock.app.listeners import Listeners
from penstock.app.node import Node
from penstock.app.security import Security
from penstock.model.config.node import NodeConfig
from penstock.net.admission import Admission
from penstock.net.buffers import BufferPool
from penstock.net.connection import Connection
from penstock.net.listener import Limits, Listener
from penstock.raft.format import Formatter, Identity
from penstock.testing.sim.chance import SeededChance
from penstock.testing.sim.disk import Platter, SimulatedDisk
from penstock.testing.sim.loop import SimulatedClock, SimulatedLoop
from penstock.testing.sim.network import SimulatedNetwork
from penstock.testing.sim.process import CURRENT, Process
from penstock.testing.sim.workers import SimulatedWorkers

POOL_BYTES = 64 << 20


class SimulatedListener(Listener):
    """Listens in the simulated network; what it does with a connection is the real thing."""

    def __init__(
        self, name: str, port: int, network: SimulatedNetwork, admission: Admission
    ) -> None:
        limits = Limits(idle_ms_max=-1)
        super().__init__(name, BufferPool(POOL_BYTES), limits, admission=admission)
        self.port = port
        self._network = network
        process = CURRENT.get()
        assert process is not None, "only a process can listen"
        self._process = process

    async def start(self) -> None:
        self._network.listen(self._process, self.port, lambda: Connection(self))

    async def stop(self, patience_ms: int) -> None:
        self._network.stop_listening(self._process, self.port)
        await super().stop(patience_ms)


class SimulatedListeners(Listeners):
    """All listeners of a node in the simulated network."""

    def __init__(self, config: NodeConfig, security: Security, network: SimulatedNetwork) -> None:
        super().__init__(config, security)
        self._network = network

    def bind(self) -> None:
        for spec in self._config.listeners:
            admission = self._admissions.of(spec.name)
            self._all.append(SimulatedListener(spec.name, spec.port, self._network, admission))


class _SimulatedNode(Node):
    """A node whose clock, chance, disk, workers and listeners are the simulation's."""

    def __init__(self, config: NodeConfig, machine: Machine) -> None:
        super().__init__(config, machine.fail)
        self._clock = machine.clock
        self._chance = machine.chance
        self._disk = machine.disk
        self._workers = machine.workers
        self._listeners = SimulatedListeners(config, self._security, machine.network)

    @property
    def assembled(self) -> bool:
        """Whether all parts are there, started or not."""
        return self._broker is not None


class Machine:
    """A host with a disk, on which a node starts, dies and starts again."""

    def __init__(
        self,
        node_id: int,
        host: str,
        settings: Mapping[str, str],
        loop: SimulatedLoop,
        network: SimulatedNetwork,
        dice: random.Random,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.settings = dict(settings)
        self.network = network
        self.platter = Platter(dice)
        self.clock = SimulatedClock(loop)
        self.chance = SeededChance(dice)
        self.workers = SimulatedWorkers(dice)
        self.disk: SimulatedDisk
        self.process: Process | None = None
        self.node: _SimulatedNode | None = None
        self.ready = False
        """Whether the node takes requests."""
        self.on_end: Callable[[str], None] = lambda _: None
        """Told when the node ends by itself, and why."""
        self._loop = loop
        self._stopping = False
        self._graves: list[object] = []

    @property
    def up(self) -> bool:
        return self.process is not None

    @property
    def started(self) -> bool:
        """Whether the node has come so far that it can be looked at."""
        return self.node is not None and self.node.assembled and not self._stopping

    @property
    def paused(self) -> bool:
        return self.process is not None and self.process.paused

    @property
    def has_lost_a_directory(self) -> bool:
        """Whether the disk failed under the running node."""
        if self.node is None or not self.started:
            return False
        return any(not each.online for each in self.node.broker.store.directories)

    # -- life ---------------------------------------------------------------------------------

    def format(self, cluster_id: str) -> None:
        """Make the disk ready, as `penstock storage format` does."""
        config = NodeConfig.of(self.settings)
        disk = SimulatedDisk(self.platter, self.clock.now)
        formatter = Formatter(disk, config.log_dirs, config.metadata_log_dir)
        identity = Identity(cluster_id, self.node_id)
        for directory in formatter.unformatted(identity):
            formatter.format(directory, identity, self.clock.now(), self.chance)

    def boot(self) -> None:
        """Start the process; it is ready when it can be."""
        assert self.process is None, f"{self.host} is up"
        self.ready = self._stopping = False
        self.disk = SimulatedDisk(self.platter, self.clock.now)
        self.process = Process(self.host)
        self.network.boot(self.process)
        self.process.spawn(self._live(self.process))

    async def _live(self, process: Process) -> None:
        node = self.node = _SimulatedNode(NodeConfig.of(self.settings), self)
        try:
            await node.start()
        except Exception as problem:  # noqa: BLE001 - as the process ends, which is told
            if self.process is process:
                self._end(f"could not start: {problem!r}")
            return
        self.ready = True

    def fail(self) -> None:
        """The node gives up, as its log failed."""
        problem = None if self.node is None else self.node.failure
        # Later: those who are told of the failure now must not find a dead process around them.
        self._loop.call_soon(self._end, f"failed: {problem!r}")

    def _end(self, why: str) -> None:
        if self.process is not None:
            self.kill(power=False)
            self.on_end(why)

    def kill(self, *, power: bool) -> None:
        """As `kill -9`, or as if the cable was pulled: then what was not synced may be gone."""
        process = self.process
        assert process is not None, f"{self.host} is down"
        process.kill()
        self.disk.alive = False
        self.platter.fuse = 0
        self.network.bury(process, power=power)
        if power:
            self.platter.power_cut()
        # Nothing of the dead is collected before the end: its `finally` would run.
        self._graves.append((process, self.node))
        self.process = self.node = None
        self.ready = False

    def stop(self) -> asyncio.Task[None]:
        """An orderly end, as SIGTERM brings about."""
        process, node = self.process, self.node
        assert process is not None and node is not None, f"{self.host} is down"

        async def leave() -> None:
            try:
                await node.stop()
                why = "stopped"
            except OSError as problem:
                why = f"could not stop in order: {problem}"
            if self.process is process:
                self._end(why)

        self.ready = False
        self._stopping = True
        return process.spawn(leave())

    def pause(self) -> None:
        """The process gets no time, as under SIGSTOP; its connections stay."""
        assert self.process is not None, f"{self.host} is down"
        self.process.pause()

    def resume(self) -> None:
        if self.process is not None and self.process.paused:
            self._loop.resume(self.process)

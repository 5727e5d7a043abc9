"""One node: broker and controller in a process, started and stopped in order.

Up: directories are locked, the metadata log is read, the logs are recovered, the controller takes
the lead, the broker registers and is unfenced, and only then does anybody get in. Down: the
reverse, and the marker of a clean shutdown is the last thing written.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable

from penstock.app.maintenance import Maintenance
from penstock.app.registration import Registration
from penstock.controller.config_rules import ConfigRules
from penstock.controller.decision import Settings
from penstock.controller.driver import ControllerDriver
from penstock.controller.machine import Controller
from penstock.metadata.cluster import Endpoint
from penstock.metadata.image import EMPTY
from penstock.metadata.levels import SUPPORTED
from penstock.model.config.endpoints import Listener as ListenerConfig
from penstock.model.config.node import NodeConfig
from penstock.model.config.topics import topic_defaults
from penstock.model.ids import ZERO_UUID, uuid_text
from penstock.net.buffers import BufferPool
from penstock.net.listener import Limits, Listener
from penstock.net.network import TcpNetwork
from penstock.platform.chance import SystemChance
from penstock.platform.clock import SystemClock
from penstock.platform.disk import Disk
from penstock.platform.open_files import logs_share, raise_limit
from penstock.platform.workers import ThreadWorkers
from penstock.raft.driver import RaftDriver
from penstock.raft.format import read_bootstrap, write_bootstrap
from penstock.raft.journal import Journal
from penstock.raft.service import QuorumService
from penstock.raft.settings import MetadataLogSettings
from penstock.raft.voters import Voter, static_voters
from penstock.raft.wire import Envelope
from penstock.server.apis import CONTROLLER_HANDLERS, HANDLERS
from penstock.server.broker import Broker
from penstock.server.dispatch import Dispatcher
from penstock.storage.flush import GroupCommit
from penstock.storage.log_config import LogConfig
from penstock.storage.log_directory import read_meta
from penstock.storage.store import LogStore

log = logging.getLogger("penstock.app")

RECEIVE_BYTES_MAX = 512 * 1024 * 1024
"""Memory for requests that have not arrived whole, unless queued.max.request.bytes says less."""

DRAIN_MS_MAX = 5_000


class CannotStart(Exception):
    """The node refuses to start; the message says what to do about it."""


REPLICAS_MAX = 1
"""Brokers of another make may join the quorum, but partitions are not replicated yet."""


class Node:
    """Everything that runs in one process."""

    def __init__(self, config: NodeConfig, on_failure: Callable[[], None]) -> None:
        self.config = config
        self.failure: BaseException | None = None
        self._on_failure = on_failure
        self._clock = SystemClock()
        self._chance = SystemChance()
        self._workers = ThreadWorkers()
        self._disk = Disk(logs_share(raise_limit()))
        self._listeners: list[Listener] = []
        self._store: LogStore | None = None
        self._driver: ControllerDriver | None = None
        self._commits: GroupCommit | None = None
        self._broker: Broker | None = None
        self._registration: Registration | None = None
        self._maintenance: Maintenance | None = None

    @property
    def broker(self) -> Broker:
        """The broker of a node that was started."""
        assert self._broker is not None
        return self._broker

    @property
    def registration(self) -> Registration:
        """The standing with the controller, of a node that was started."""
        assert self._registration is not None
        return self._registration

    @property
    def address(self) -> str:
        """HOST:PORT of the first listener for clients, as advertised."""
        first = self.advertised()[0]
        host = f"[{first.host}]" if ":" in first.host else first.host
        return f"{host}:{first.port}"

    # -- up -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Come up; returns when requests are accepted. Raises what made it impossible."""
        config = self.config
        if not (config.is_broker and config.is_controller):
            raise CannotStart(
                "process.roles must be broker,controller: a node of one role needs a quorum of "
                "several nodes, which is not built yet"
            )
        for notice in config.notices():
            log.warning("%s", notice)
        store, cluster_id = self._open_store()
        driver = self._open_controller(store, cluster_id)
        self._bind()
        defaults = LogConfig.of(topic_defaults(config))
        store.load(lambda _: defaults)
        commits = self._commits = GroupCommit(self._workers, store.sync_failed)
        store.context.on_roll = commits.sync_soon
        broker = self._broker = Broker(
            config,
            cluster_id,
            store,
            commits,
            driver,
            self._clock,
            self._chance,
            self._workers,
            EMPTY,
            SUPPORTED,
            TcpNetwork(),
        )
        broker.quorum = self._quorum_service(driver, cluster_id)
        store.on_offline = broker.on_directory_offline
        driver.subscribe(broker.on_image)
        self._make_dispatchers(broker)
        await driver.start(self._fail)
        broker.set_aside_strays()
        self._registration = Registration(
            broker,
            driver,
            self.advertised(),
            self._with_ports(config.advertised_controller_listeners),
            [each.uuid for each in store.directories if each.online],
        )
        await self._registration.register()
        broker.start()
        await broker.settled()
        await commits.drain()  # what a crash left unsynced is committed before anybody asks for it
        self._maintenance = Maintenance(broker, commits)
        self._maintenance.start()
        for listener in self._listeners:
            await listener.start()

    def _open_store(self) -> tuple[LogStore, str]:
        config = self.config
        known = [read_meta(self._disk, path) for path in config.log_dirs]
        found = {meta["cluster.id"] for meta in known if meta and "cluster.id" in meta}
        if len(found) > 1:
            raise CannotStart(
                f"log.dirs belong to different clusters: {', '.join(sorted(found))}; "
                "give the node directories of one cluster"
            )
        cluster_id = found.pop() if found else uuid_text(self._chance.uuid())
        store = LogStore(
            config.log_dirs,
            node_id=config.node_id,
            cluster_id=cluster_id,
            disk=self._disk,
            clock=self._clock,
            chance=self._chance,
            producer_expiration_ms=config.get_int("producer.id.expiration.ms"),
            recovery_threads=config.get_int("num.recovery.threads.per.data.dir"),
        )
        store.take()
        self._store = store
        self._disk.mkdir(config.metadata_log_dir)
        if not any(known):
            write_bootstrap(self._disk, config.metadata_log_dir, self._clock.now())
        return store, cluster_id

    def _open_controller(self, store: LogStore, cluster_id: str) -> ControllerDriver:
        config = self.config
        voters = [Voter(voter.node_id) for voter in config.quorum_voters] or [Voter(config.node_id)]
        journal = Journal(
            store.context,
            config.metadata_log_dir,
            static_voters(voters),
            MetadataLogSettings.of(config),
            self._clock.now(),
        )
        own = os.path.abspath(config.metadata_log_dir)
        held = [each.uuid for each in store.directories if each.path == own]
        raft = RaftDriver(
            journal,
            config.node_id,
            self._clock,
            self._chance,
            self._workers,
            # Of a folder that holds nothing but metadata the store knows nothing.
            directory=held[0] if held else ZERO_UUID,
        )
        settings = Settings(
            cluster_id,
            config.node_id,
            partitions_default=config.get_int("num.partitions"),
            replication_default=config.get_int("default.replication.factor"),
            session_timeout_ms=config.get_int("broker.session.timeout.ms"),
            delete_topics=config.get_bool("delete.topic.enable"),
            isr_min_default=config.get_int("min.insync.replicas"),
            quorum=tuple(voter.id for voter in voters),
            replicas_max=REPLICAS_MAX,
        )
        self._driver = ControllerDriver(
            raft,
            Controller(settings, ConfigRules(config)),
            self._clock,
            self._chance,
            read_bootstrap(self._disk, config.metadata_log_dir),
        )
        return self._driver

    def _quorum_service(self, driver: ControllerDriver, cluster_id: str) -> QuorumService:
        raft = driver.raft
        own = self._with_ports(self.config.advertised_controller_listeners)
        endpoints = tuple(Endpoint(each.name, each.host, each.port, 0) for each in own)

        def endpoint_of(node: int) -> Endpoint | None:
            if node == raft.node_id:
                return endpoints[0] if endpoints else None
            voter = raft.voters.by_id.get(node)
            return voter.endpoints[0] if voter is not None and voter.endpoints else None

        return QuorumService(raft, Envelope(cluster_id, raft.own, endpoints), endpoint_of)

    # -- listeners ----------------------------------------------------------------------------

    def _bind(self) -> None:
        config = self.config
        wanted = config.get_int("queued.max.request.bytes")
        pool = BufferPool(wanted if wanted > 0 else RECEIVE_BYTES_MAX)
        for spec in config.listeners:
            if spec.protocol != "PLAINTEXT":
                raise CannotStart(
                    f"listener {spec.name} asks for {spec.protocol}: only PLAINTEXT is built so far"
                )
            listener = Listener(spec.name, pool, self._limits(spec))
            try:
                listener.bind(spec.host, spec.port)
            except OSError as problem:
                raise CannotStart(
                    f"cannot listen on {spec.host}:{spec.port} ({spec.name}): {problem.strerror}; "
                    "stop what uses the address, or choose another port"
                ) from problem
            self._listeners.append(listener)

    def _limits(self, spec: ListenerConfig) -> Limits:
        config = self.config

        def integer(name: str) -> int:
            value = config.for_listener(spec.name, name)
            assert isinstance(value, int)
            return value

        return Limits(
            frame_bytes_max=integer("socket.request.max.bytes"),
            connections_max=integer("max.connections"),
            connections_per_address_max=integer("max.connections.per.ip"),
            idle_ms_max=integer("connections.max.idle.ms"),
            backlog=integer("socket.listen.backlog.size"),
            # Kafka's default of 100 KB holds a connection below what one read could bring. Left
            # alone, the kernel sizes the buffers by what the connection really does.
            send_buffer_bytes=_if_set(config, "socket.send.buffer.bytes"),
            receive_buffer_bytes=_if_set(config, "socket.receive.buffer.bytes"),
        )

    def _make_dispatchers(self, broker: Broker) -> None:
        controllers = self.config.controller_listener_names
        for listener in self._listeners:
            handlers = CONTROLLER_HANDLERS if listener.name in controllers else HANDLERS
            listener.service = Dispatcher(broker, handlers)

    def advertised(self) -> list[ListenerConfig]:
        """Listeners as clients are told of them."""
        return self._with_ports(self.config.advertised_listeners)

    def _with_ports(self, listeners: Iterable[ListenerConfig]) -> list[ListenerConfig]:
        """With the names and ports that were really taken."""
        ports = {listener.name: listener.port for listener in self._listeners}
        return [
            spec._replace(
                host=spec.host or _own_name(),
                port=spec.port or ports.get(spec.name, 0),
            )
            for spec in listeners
        ]

    # -- down ---------------------------------------------------------------------------------

    async def stop(self, clean: bool = True) -> None:
        """Go down in order; a clean stop spares the next start the recovery."""
        if self._broker is not None:
            # Soon, that is, when the listeners have stopped reading: nobody parks again.
            self._broker.loop.call_soon(self._broker.release_parked)
        for listener in self._listeners:
            await listener.stop(DRAIN_MS_MAX if clean else 0)
        if self._maintenance is not None:
            await self._maintenance.stop()
        if self._broker is not None:
            self._broker.log_moves.stop()
        epoch = -1
        if self._registration is not None:
            epoch = self._registration.epoch
            self._registration.stop()
        if self._commits is not None:
            await self._commits.drain()
        if self._driver is not None:
            await self._driver.close()
        if self._store is not None:
            self._store.close(clean, epoch)
        self._workers.close()

    def _fail(self, problem: BaseException) -> None:
        log.critical("the metadata log failed, so the node stops: %s", problem)
        self.failure = problem
        self._on_failure()


def _if_set(config: NodeConfig, name: str) -> int:
    return config.get_int(name) if config.is_set(name) else -1


def _own_name() -> str:
    import socket

    return socket.getfqdn()

"""One node: broker, controller or both in a process, started and stopped in order.

Up: directories are locked and addresses taken, the metadata log is read, the logs are recovered,
and the quorum can be reached. A sole voter leads at once; others wait for an election. The broker
registers, catches up with the metadata, hosts its part, lets clients in and is unfenced. Down: the
broker hands over, then the reverse; the marker of a clean shutdown is the last thing written.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable

from penstock.app.controller_registration import ControllerRegistration
from penstock.app.listeners import Listeners
from penstock.app.maintenance import Maintenance
from penstock.app.problems import CannotStart
from penstock.app.quorum import Quorum, is_sole, open_quorum
from penstock.app.registration import Registration, RegistrationRefused
from penstock.app.security import Security
from penstock.controller.driver import ControllerDriver
from penstock.metadata.image import EMPTY
from penstock.metadata.levels import SUPPORTED
from penstock.model.config.endpoints import Listener as ListenerConfig
from penstock.model.config.node import NodeConfig
from penstock.model.config.topics import topic_defaults
from penstock.model.ids import TopicPartition, uuid_text
from penstock.net.network import Network, TcpNetwork
from penstock.platform.chance import Chance, SystemChance
from penstock.platform.clock import Clock, SystemClock
from penstock.platform.disk import Disk
from penstock.platform.open_files import logs_share, raise_limit
from penstock.platform.workers import ThreadWorkers, Workers
from penstock.raft.format import write_bootstrap
from penstock.server.broker import Broker
from penstock.server.channel import ControllerChannel
from penstock.storage.flush import GroupCommit
from penstock.storage.log_config import LogConfig
from penstock.storage.log_directory import LogDirectory, read_meta
from penstock.storage.store import LogStore

__all__ = ["CannotStart", "Node"]

log = logging.getLogger("penstock.app")

DRAIN_MS_MAX = 5_000


class Node:
    """Everything that runs in one process."""

    def __init__(self, config: NodeConfig, on_failure: Callable[[], None]) -> None:
        self.config = config
        self.failure: BaseException | None = None
        self._on_failure = on_failure
        self._clock: Clock = SystemClock()
        self._chance: Chance = SystemChance()
        self._workers: Workers = ThreadWorkers()
        self._security = Security(config)
        self._to_brokers: Network = TcpNetwork(
            self._security.door(config.inter_broker_listener_name)
        )
        self._to_controllers: Network = TcpNetwork(
            self._security.door(config.controller_listener_names[0])
        )
        self._disk = Disk(logs_share(raise_limit()))
        self._listeners = Listeners(config, self._security)
        self._store: LogStore | None = None
        self._quorum: Quorum | None = None
        self._channel: ControllerChannel | None = None
        self._commits: GroupCommit | None = None
        self._broker: Broker | None = None
        self._registration: Registration | None = None
        self._controller_registration: ControllerRegistration | None = None
        self._maintenance: Maintenance | None = None
        self._leaving: asyncio.Future[None] | None = None

    @property
    def broker(self) -> Broker:
        """The broker of a node that was started."""
        assert self._broker is not None
        return self._broker

    @property
    def controller(self) -> ControllerDriver:
        """The controller of a node that was started; active if it was elected."""
        assert self._quorum is not None
        return self._quorum.controller

    @property
    def registration(self) -> Registration:
        """The standing with the controller, of a broker that was started."""
        assert self._registration is not None
        return self._registration

    @property
    def sound(self) -> bool:
        """Whether what is on disk can be trusted, however the node came to its end."""
        return self.failure is None or isinstance(self.failure, CannotStart | RegistrationRefused)

    @property
    def address(self) -> str:
        """HOST:PORT of the first listener, as advertised: for clients, if the node has any."""
        first = (self.advertised() or self._advertised_controllers())[0]
        host = f"[{first.host}]" if ":" in first.host else first.host
        return f"{host}:{first.port}"

    def advertised(self) -> list[ListenerConfig]:
        """Listeners as clients are told of them."""
        if not self.config.is_broker:
            return []
        return self._listeners.with_ports(self.config.advertised_listeners)

    def _advertised_controllers(self) -> list[ListenerConfig]:
        if not self.config.is_controller:
            return []
        return self._listeners.with_ports(self.config.advertised_controller_listeners)

    # -- up -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Come up; returns when requests are accepted. Raises what made it impossible."""
        for notice in self.config.notices():
            log.warning("%s", notice)
        self._security.open(self._workers, self._chance)
        store, cluster_id = self._open_store()
        self._listeners.bind()
        self._security.start(self._workers, self._clock)
        quorum = self._quorum = self._open_quorum(store, cluster_id)
        defaults = LogConfig.of(topic_defaults(self.config))
        store.load(lambda _: defaults)
        broker = self._broker = self._assemble(store, cluster_id, quorum)
        for listener in self._listeners.for_the_quorum:
            await listener.start()  # before anything waits for an election: the others need it
        await quorum.controller.start(self._fail)
        if self.config.is_controller:
            await self._start_controller(quorum, broker)
        if self.config.is_broker:
            await self._start_broker(broker, store)

    def _open_store(self) -> tuple[LogStore, str]:
        config = self.config
        known = [read_meta(self._disk, path) for path in config.log_dirs]
        found = {meta["cluster.id"] for meta in known if meta and "cluster.id" in meta}
        if len(found) > 1:
            raise CannotStart(
                f"log.dirs belong to different clusters: {', '.join(sorted(found))}; "
                "give the node directories of one cluster"
            )
        if not found and not is_sole(config):
            raise CannotStart(
                f"{config.log_dirs[0]} is not formatted, and a node that shares a quorum must not "
                "invent a cluster: run `penstock storage format`, with one cluster id for all nodes"
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

    def _open_quorum(self, store: LogStore, cluster_id: str) -> Quorum:
        return open_quorum(
            self.config,
            cluster_id,
            store,
            self._advertised_controllers(),
            self._to_controllers,
            self._clock,
            self._chance,
            self._workers,
            self._on_other_cluster,
        )

    def _on_other_cluster(self) -> None:
        """Nobody whom this node knows belongs to its cluster: waiting would change nothing."""
        assert self._store is not None
        self._fail(
            CannotStart(
                f"every other controller belongs to another cluster than {self._store.cluster_id}, "
                f"which meta.properties in {self.config.log_dirs[0]} names: give this node "
                "directories and controllers of one cluster"
            )
        )

    def _assemble(self, store: LogStore, cluster_id: str, quorum: Quorum) -> Broker:
        commits = self._commits = GroupCommit(self._workers, store.sync_failed)
        store.context.on_roll = commits.sync_soon
        channel = self._channel = ControllerChannel(
            quorum.controller,
            self._to_controllers,
            quorum.peers.where,
            self._clock,
            self.config.get_int("request.timeout.ms") / 1000,
        )
        broker = Broker(
            self.config,
            cluster_id,
            store,
            commits,
            channel,
            self._clock,
            self._chance,
            self._workers,
            EMPTY,
            SUPPORTED,
            self._to_brokers,
        )
        broker.authorizer = self._security.authorizer
        if broker.authorizer is not None:
            broker.authorizer.loaded = lambda: quorum.controller.raft.high_watermark >= 0
        self._security.know_early(quorum.controller.raft)
        broker.local_controller = quorum.controller
        broker.quorum = quorum.service
        store.on_offline = self._on_offline
        store.gives_way = broker.gives_way
        quorum.controller.subscribe(broker.on_image)
        quorum.controller.subscribe(self._listeners.on_image)
        self._listeners.answer_with(broker)
        return broker

    async def _start_controller(self, quorum: Quorum, broker: Broker) -> None:
        """Voters register when there is an active controller, which may take long: in a task."""
        registration = self._controller_registration = ControllerRegistration(
            broker.controller,
            self.config.node_id,
            self._chance.uuid(),
            self._advertised_controllers(),
        )
        quorum.controller.subscribe(registration.on_image)
        if quorum.controller.active:
            await registration.register()
        registration.start()

    async def _start_broker(self, broker: Broker, store: LogStore) -> None:
        assert self._commits is not None
        registration = self._registration = Registration(
            broker,
            self.advertised(),
            [each.uuid for each in store.directories if each.online],
            self._fail,
        )
        self.controller.subscribe(registration.on_image)
        await registration.register()
        broker.set_aside_strays()  # the metadata is complete now
        if set(broker.image.cluster.brokers) - {broker.node_id}:
            # Others would come as soon as it is unfenced: it must be ready for them by then.
            await self._open_for_clients(broker, self._commits)
            await registration.unfence()
        else:
            # Alone it would give up what it leads, only to get it back a moment later.
            await registration.unfence()
            await self._open_for_clients(broker, self._commits)

    async def _open_for_clients(self, broker: Broker, commits: GroupCommit) -> None:
        broker.start()
        await broker.settled()
        # What a crash left unsynced is committed before anybody asks for it.
        await commits.drain()
        self._maintenance = Maintenance(broker, commits)
        self._maintenance.start()
        for listener in self._listeners.for_clients:
            await listener.start()

    # -- down ---------------------------------------------------------------------------------

    async def stop(self, clean: bool = True) -> None:
        """Go down in order; a clean stop spares the next start the recovery."""
        if clean and self._registration is not None:
            await self._hand_over(self._registration)
            clean = self.sound  # it may have failed meanwhile
        if self._broker is not None:
            # Soon, that is, when the listeners have stopped reading: nobody parks again.
            self._broker.loop.call_soon(self._broker.release_parked)
        for listener in self._listeners.for_clients:
            await listener.stop(DRAIN_MS_MAX if clean else 0)
        if self._maintenance is not None:
            await self._maintenance.stop()
        if self._broker is not None:
            self._broker.log_moves.stop()
        if self._registration is not None:
            self._registration.stop()
        if self._controller_registration is not None:
            self._controller_registration.stop()
        if self._commits is not None:
            await self._commits.drain()
        if self._channel is not None:
            self._channel.close()
        if self._quorum is not None:
            await self._quorum.controller.close()
        # Last: a leader that resigns says so while the others can still hear and ask it.
        for listener in self._listeners.for_the_quorum:
            await listener.stop(DRAIN_MS_MAX if clean else 0)
        await self._security.stop()
        if self._store is not None:
            self._store.close(clean, self._last_epoch(self._store))
        self._workers.close()

    def _last_epoch(self, store: LogStore) -> int:
        """The epoch under which everything on the disk was written: a start that never came to
        registering has not added to what the one before left."""
        if self._registration is not None and self._registration.epoch >= 0:
            return self._registration.epoch
        return -1 if store.clean_broker_epoch is None else store.clean_broker_epoch

    async def _hand_over(self, registration: Registration) -> None:
        leaving = self._leaving = asyncio.ensure_future(registration.leave())
        await asyncio.wait({leaving})
        if not leaving.cancelled() and leaving.exception() is not None:
            log.error("cannot hand over", exc_info=leaving.exception())

    def hurry(self) -> None:
        """Stop without waiting until others have taken over."""
        if self._leaving is not None:
            self._leaving.cancel()

    def _on_offline(self, directory: LogDirectory, partitions: list[TopicPartition]) -> None:
        """Without any directory a broker would only be in the way of those who can serve."""
        self.broker.on_directory_offline(directory, partitions)
        if not any(each.online for each in self.broker.store.directories):
            self._fail(OSError(errno.EIO, f"no log directory works any more: {directory.error}"))

    def _fail(self, problem: BaseException) -> None:
        if self.failure is not None:
            return
        log.critical("the node stops: %s", problem)
        self.failure = problem
        self._on_failure()

"""The broker: what a node hosts, and what its handlers share.

It follows the metadata image. Whatever the controller decides arrives as (image, delta); the
broker opens, leads, reconfigures or closes partitions until what it hosts is what the image says.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from penstock.model.errors import ErrorCode
from penstock.model.ids import NodeId
from penstock.server.closest_replica import RACK_AWARE
from penstock.server.coordinators import Coordinators
from penstock.server.delays import Delays
from penstock.server.fetch_sessions import FetchSessions
from penstock.server.isr_changes import IsrChanges
from penstock.server.log_moves import LogMoves
from penstock.server.neighbours import Neighbours
from penstock.server.parked_fetches import DueFollowers
from penstock.server.producer_ids import ProducerIds
from penstock.server.quotas import Quotas
from penstock.server.reconcile import Reconciler, settle
from penstock.server.replication import Replication
from penstock.server.shares import Shares
from penstock.server.throttles import Throttles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.topics import PartitionImage, TopicImage
    from penstock.model.config.node import NodeConfig
    from penstock.model.ids import TopicPartition
    from penstock.net.network import Network
    from penstock.platform.chance import Chance
    from penstock.platform.clock import Clock
    from penstock.platform.workers import Workers
    from penstock.raft.service import QuorumService
    from penstock.replica.partition import Partition
    from penstock.security.authorizer import Authorizer
    from penstock.storage.flush import GroupCommit
    from penstock.storage.log_directory import LogDirectory
    from penstock.storage.store import LogStore

log = logging.getLogger("penstock.server")


class Controller(Protocol):
    """Where metadata is changed: the active controller, near or far."""

    async def handle(self, api_key: int, request: Any, **circumstances: Any) -> Any:
        """The controller's response to a request that changes or asks about metadata."""


class LocalController(Controller, Protocol):
    """The controller in this process."""

    def calls_on(self, broker_id: int, line: object) -> None:
        """A broker said on a connection that it lives."""

    def hung_up(self, broker_id: int, line: object) -> None:
        """A connection is gone on which a broker said that it lived."""


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """Bounds on what clients may make the broker hold."""

    fetch_bytes_max: int = 57_671_680
    fetch_sessions_max: int = 1000
    parked_fetches_max: int = 100_000
    parked_partitions_max: int = 1_000_000


class Broker:
    """The state that handlers see."""

    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str,
        store: LogStore,
        commits: GroupCommit,
        controller: Controller,
        clock: Clock,
        chance: Chance,
        workers: Workers,
        image: MetadataImage,
        supported_features: Mapping[str, tuple[int, int]],
        network: Network,
    ) -> None:
        self.config = config
        self.node_id = NodeId(config.node_id)
        self.cluster_id = cluster_id
        self.store = store
        self.controller = controller
        self.clock = clock
        self.chance = chance
        self.workers = workers
        self.image = image
        self.supported_features = supported_features
        self.loop = asyncio.get_running_loop()
        self.limits = BrokerLimits(
            fetch_bytes_max=config.get_int("fetch.max.bytes"),
            fetch_sessions_max=config.get_int("max.incremental.fetch.session.cache.slots"),
        )
        self.rack_aware = config.get_str("replica.selector.class") == RACK_AWARE
        """Whether consumers are sent to replicas in their own rack."""
        self.authorizer: Authorizer | None = None
        """Who decides what principals may do; None lets everybody do everything."""
        self.judge_keys: Callable[[NodeConfig], str | None] = lambda _: None
        """What is wrong with the keys that a configuration names, if anything is."""
        self.local_controller: LocalController
        """The controller in this process, active or not; set by who assembles the node."""
        self.quorum: QuorumService
        """This node's part in the quorum; set by who assembles the node."""
        self.hosted: dict[tuple[str, int], Partition] = {}
        self.hosted_by_id: dict[tuple[bytes, int], Partition] = {}
        self.parked_fetches = 0
        self.parked_partitions = 0
        self.due_followers = DueFollowers(self.loop)
        self.on_deleted: Callable[[TopicPartition], None] = lambda _: None
        """Told of each partition whose log is deleted."""
        self.fetch_sessions = FetchSessions(
            self.limits.fetch_sessions_max, lambda: chance.between(1, 2_147_483_647)
        )
        self.neighbours = Neighbours(network, self.node_id, config.inter_broker_listener_name)
        self.producer_ids = ProducerIds(controller, self.node_id, lambda: self.epoch)
        self.isr_changes = IsrChanges(self)
        self.log_moves = LogMoves(self)
        self.coordinators = Coordinators(self)
        self.shares = Shares(self)
        self.delays = Delays(self)
        self.throttles = Throttles(config)
        self.quotas = Quotas(config, clock.monotonic)
        self.metered: Quotas | None = None
        """The quotas, if there is one that requests have to be measured for."""
        self.replication = Replication(self, commits)
        self._reconciler = Reconciler(self, commits)

    @property
    def epoch(self) -> int:
        """The epoch of this node's registration, -1 before it has one."""
        registration = self.image.cluster.brokers.get(self.node_id)
        return -1 if registration is None else registration.epoch

    def controller_at(self, listener: str) -> Controller:
        """Who decides for those who ask on a listener: who asks a controller means this very one,
        and hears it if another is active."""
        if listener in self.config.controller_listener_names:
            return self.local_controller
        return self.controller

    # -- following the metadata --------------------------------------------------------------

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Become what a newly committed image says."""
        self.image = image
        if self.authorizer is not None and delta.acls is not None:
            self.authorizer.on_image(image.acls, delta.acls)
        self.neighbours.on_image(image)
        self.throttles.on_image(image, delta)
        if delta.client_quotas is not None:
            self.quotas.on_image(image.client_quotas)
            self.metered = self.quotas if self.quotas.metering else None
        self.replication.on_image(delta)
        self.isr_changes.on_image(image, delta)
        self.shares.on_image(delta)
        self._reconciler.apply(image, delta)
        self.coordinators.on_image(image, delta)

    def on_directory_offline(
        self, directory: LogDirectory, partitions: list[TopicPartition]
    ) -> None:
        """A log directory failed: what lies in it is offline, all else goes on."""
        log.error("%d partitions went offline with %s", len(partitions), directory.path)
        for key in partitions:
            partition = self.hosted.get(key)
            if partition is not None:
                partition.go_offline()
                self.replication.leave(partition)
                self.shares.lose(partition)
                self.coordinators.lose(partition)

    def gives_way(self, directory: LogDirectory) -> bool:
        """Whether to leave a full directory to others: a leader that cannot write holds up its
        producers, while somebody in sync could lead. The last one in sync stays, for readers."""
        prefix = directory.path + "/"
        return any(
            partition.leading and len(partition.isr) > 1
            for partition in self.hosted.values()
            if partition.log.directory.startswith(prefix)
        )

    def set_aside_strays(self) -> None:
        """Once, after the first image: logs that the metadata does not know are moved away."""
        self._reconciler.set_aside_strays(self.image)

    def start(self) -> None:
        """Begin to host what the image says."""
        self._reconciler.start()
        self.isr_changes.start()

    async def settled(self) -> None:
        """Wait until the broker hosts what the image says."""
        await settle(self._reconciler)

    def release_parked(self) -> None:
        """Answer everybody who waits, with what there is: the node stops."""
        for partition in self.hosted.values():
            partition.release_readers()
        self.delays.close()
        self.shares.close()
        self.coordinators.close()
        self.replication.close()
        self.isr_changes.close()
        self.neighbours.close()

    # -- finding partitions ------------------------------------------------------------------

    def find_topic(self, topic_id: bytes, name: str) -> TopicImage | None:
        """A topic by id if the client gave one, else by name."""
        topics = self.image.topics
        return topics.by_id.get(topic_id) or topics.by_name.get(name)

    def find_partition(self, topic_id: bytes, name: str, index: int) -> PartitionImage | None:
        """A partition's state in the image, wherever it is led."""
        topic = self.find_topic(topic_id, name)
        return None if topic is None else topic.partitions.get(index)

    def why_not_hosted(self, topic: str | bytes, index: int) -> ErrorCode:
        """What to say about a partition that this node does not hold."""
        topics = self.image.topics
        if isinstance(topic, str):
            found = topics.by_name.get(topic)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            found = topics.by_id.get(topic)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        if found is None:
            return unknown
        partition = found.partitions.get(index)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.node_id in partition.replicas and self._reconciler.settled:
            return ErrorCode.KAFKA_STORAGE_ERROR  # ours, but its directory is offline
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

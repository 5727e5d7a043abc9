"""A node's part in the quorum: the metadata log, the other members, the controller on top of it.

Every node has one. Voters elect the active controller among themselves; brokers copy the log.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from penstock.controller.config_rules import ConfigRules
from penstock.controller.decision import Settings, TokenSettings
from penstock.controller.driver import ControllerDriver
from penstock.controller.machine import Controller
from penstock.metadata.cluster import Endpoint
from penstock.model.config.endpoints import endpoint_of
from penstock.model.ids import ZERO_UUID, uuid_of
from penstock.raft.driver import RaftDriver
from penstock.raft.format import read_bootstrap
from penstock.raft.journal import Journal
from penstock.raft.messages import Replica
from penstock.raft.peers import QuorumPeers
from penstock.raft.service import QuorumService
from penstock.raft.settings import MetadataLogSettings
from penstock.raft.timeouts import Timeouts
from penstock.raft.voters import Voter, static_voters
from penstock.raft.wire import Envelope
from penstock.security.tokens import secret_of
from penstock.storage.log_directory import read_meta

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.model.config.endpoints import Listener
    from penstock.model.config.node import NodeConfig
    from penstock.net.network import Network
    from penstock.platform.chance import Chance
    from penstock.platform.clock import Clock
    from penstock.platform.workers import Workers
    from penstock.storage.store import LogStore


class Quorum(NamedTuple):
    """The parts, wired to each other and not started."""

    controller: ControllerDriver
    peers: QuorumPeers
    service: QuorumService


def is_sole(config: NodeConfig) -> bool:
    """Whether this node is, and stays, the only voter: then it waits for nobody."""
    return [voter.node_id for voter in config.quorum_voters] == [config.node_id]


def open_quorum(
    config: NodeConfig,
    cluster_id: str,
    store: LogStore,
    endpoints: Sequence[Listener],
    network: Network,
    clock: Clock,
    chance: Chance,
    workers: Workers,
    on_other_cluster: Callable[[], None],
) -> Quorum:
    """Read the metadata log. `endpoints` are where this node's controller can be reached.

    `on_other_cluster` is told if all that this node could join turns out to be another cluster.
    """
    voters = [Voter(voter.node_id) for voter in config.quorum_voters]
    journal = Journal(
        store.context,
        config.metadata_log_dir,
        static_voters(voters),
        MetadataLogSettings.of(config),
        clock.now(),
        sole=is_sole(config),
    )
    own = Replica(config.node_id, _directory_id(config, store))
    told = tuple(Endpoint(each.name, each.host, each.port, 0) for each in endpoints)
    envelope = Envelope(cluster_id, own, told)
    peers = QuorumPeers(
        envelope,
        network,
        {voter.node_id: (voter.host, voter.port) for voter in config.quorum_voters},
        _bootstrap_servers(config),
        chance,
        config.get_int("controller.quorum.request.timeout.ms") / 1000,
        on_other_cluster,
    )
    raft = RaftDriver(
        journal,
        config.node_id,
        clock,
        chance,
        workers,
        peers,
        _timeouts(config),
        directory=own.directory,
        endpoints=told if config.is_controller else (),
        joins=config.get_bool("controller.quorum.auto.join.enable"),
    )
    peers.follow(lambda: raft.voters)
    controller = ControllerDriver(
        raft,
        Controller(_settings(config, cluster_id), ConfigRules(config)),
        clock,
        chance,
        read_bootstrap(store.disk, config.metadata_log_dir),
    )
    service = QuorumService(raft, envelope, _Finder(raft, peers, told), peers.learn)
    controller.subscribe(_Addresses(peers).on_image)
    return Quorum(controller, peers, service)


def _directory_id(config: NodeConfig, store: LogStore) -> bytes:
    own = os.path.abspath(config.metadata_log_dir)
    held = [each.uuid for each in store.directories if each.path == own]
    if held:
        return held[0]
    # Of a folder that holds nothing but metadata the store knows nothing.
    meta = read_meta(store.disk, own) or {}
    return uuid_of(meta["directory.id"]) if "directory.id" in meta else ZERO_UUID


def _bootstrap_servers(config: NodeConfig) -> list[tuple[str, int]]:
    found = (endpoint_of(text) for text in config.get_list("controller.quorum.bootstrap.servers"))
    return [each for each in found if each is not None]


def _timeouts(config: NodeConfig) -> Timeouts:
    return Timeouts(
        election=config.get_int("controller.quorum.election.timeout.ms"),
        fetch=config.get_int("controller.quorum.fetch.timeout.ms"),
        backoff_max=config.get_int("controller.quorum.election.backoff.max.ms"),
        retry=config.get_int("controller.quorum.retry.backoff.ms"),
        request=config.get_int("controller.quorum.request.timeout.ms"),
    )


def _settings(config: NodeConfig, cluster_id: str) -> Settings:
    return Settings(
        cluster_id,
        config.node_id,
        partitions_default=config.get_int("num.partitions"),
        replication_default=config.get_int("default.replication.factor"),
        session_timeout_ms=config.get_int("broker.session.timeout.ms"),
        heartbeat_ms=config.get_int("broker.heartbeat.interval.ms"),
        delete_topics=config.get_bool("delete.topic.enable"),
        isr_min_default=config.get_int("min.insync.replicas"),
        balance_seconds=(
            config.get_int("leader.imbalance.check.interval.seconds")
            if config.get_bool("auto.leader.rebalance.enable")
            else None
        ),
        unclean_seconds=config.get_int("unclean.leader.election.interval.ms") / 1000,
        quorum=tuple(voter.node_id for voter in config.quorum_voters),
        tokens=_tokens(config),
    )


def _tokens(config: NodeConfig) -> TokenSettings | None:
    secret = secret_of(config)
    if secret is None:
        return None
    return TokenSettings(
        secret,
        lifetime_ms_max=config.get_int("delegation.token.max.lifetime.ms"),
        renewal_ms=config.get_int("delegation.token.expiry.time.ms"),
        sweep_seconds=config.get_int("delegation.token.expiry.check.interval.ms") / 1000,
    )


class _Finder:
    """Where members of the quorum listen, for those who are told who leads."""

    def __init__(self, raft: RaftDriver, peers: QuorumPeers, own: Sequence[Endpoint]) -> None:
        self._raft = raft
        self._peers = peers
        self._own = own

    def __call__(self, node: int) -> Endpoint | None:
        if node == self._raft.node_id:
            return self._own[0] if self._own else None
        voter = self._raft.voters.by_id.get(node)
        if voter is not None and voter.endpoints:
            return voter.endpoints[0]
        address = self._peers.where(node)
        return None if address is None else Endpoint("", *address, 0)


class _Addresses:
    """Controllers tell where they listen when they register."""

    def __init__(self, peers: QuorumPeers) -> None:
        self._peers = peers

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if delta.cluster is None:
            return
        for controller in image.cluster.controllers.values():
            if controller.endpoints:
                first = controller.endpoints[0]
                self._peers.learn(controller.id, (first.host, first.port))

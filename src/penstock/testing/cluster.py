"""Several real nodes for a test, as one cluster: to be killed, stopped and started again."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.metadata.cluster import Endpoint
from penstock.model.config.endpoints import security_number
from penstock.model.ids import uuid_text
from penstock.platform.chance import SystemChance
from penstock.platform.clock import SystemClock
from penstock.platform.disk import Disk
from penstock.raft.format import Formatter, Identity
from penstock.raft.voters import DYNAMIC_FROM, Voter, Voters
from penstock.testing.broker import PLAINTEXT, Broker, BrokerFailed, protocol_settings
from penstock.testing.ports import HOST, free_ports

if TYPE_CHECKING:
    from penstock.net.peer import Door

REPLICATION_MAX = 3
BOTH = "broker,controller"


class Node(Broker):
    """One node of a cluster. It keeps its ports and its directory over restarts."""

    def __init__(
        self,
        node_id: int,
        roles: str,
        data: str,
        port: int,
        controller_port: int,
        config: Mapping[str, str],
        start_seconds_max: float,
    ) -> None:
        super().__init__(
            config, data=data, host=HOST, port=port, start_seconds_max=start_seconds_max
        )
        self.id = node_id
        self.roles = roles
        self.controller_port = controller_port

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    def pause(self) -> None:
        """Hold the process as it is (SIGSTOP): it answers nobody until `resume`."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def __repr__(self) -> str:
        return f"<Node {self.id}, {self.roles}: {super().__repr__()}>"


class Cluster:
    """Penstock nodes, each in its own process, that live as long as a `with` block.

        with Cluster(nodes=3) as cluster:
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
            cluster.node(2).kill()

    Nodes are numbered from 1. `roles` is what each one is, or a list with the roles of each:
    `["controller", "broker", "broker"]`. `config` holds settings for all of them; `configs` those
    of single nodes, by id. Data lives in a temporary directory unless `data` names one to keep.

    The listeners of brokers bear the name of their `protocol`, those of controllers are named
    CONTROLLER and speak `controller_protocol`; what has to be proved there is up to `config`.

    The controllers are voters for good, named in every node's configuration; in a `dynamic` quorum
    the metadata log names them, and they can be added and removed.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        roles: str | Sequence[str] = BOTH,
        config: Mapping[str, str] | None = None,
        configs: Mapping[int, Mapping[str, str]] | None = None,
        data: str | os.PathLike[str] | None = None,
        dynamic: bool = False,
        protocol: str = PLAINTEXT,
        controller_protocol: str = PLAINTEXT,
        start_seconds_max: float = 60.0,
    ) -> None:
        each_role = [roles] * nodes if isinstance(roles, str) else list(roles)
        if len(each_role) != nodes:
            raise ValueError(f"{len(each_role)} roles for {nodes} nodes")
        self.id = uuid_text(SystemChance().uuid())
        """The cluster's id."""
        self._kept = data is not None
        self._data = os.fspath(data) if data is not None else tempfile.mkdtemp(prefix="penstock-")
        self._config = dict(config or {})
        self._start_seconds_max = start_seconds_max
        self._protocol = protocol
        self._protocols = protocol_settings(protocol, controller_protocol)
        ports = iter(free_ports(nodes))
        self._controllers = {
            number: next(ports) for number, role in enumerate(each_role, 1) if "controller" in role
        }
        self._first_voters = _voters(self._controllers, controller_protocol) if dynamic else None
        self._quorum = quorum_settings(self._controllers, dynamic=dynamic)
        self._replication = replication_settings(sum("broker" in role for role in each_role))
        self.nodes: dict[int, Node] = {}
        """By id."""
        for number, role in enumerate(each_role, 1):
            own = (configs or {}).get(number) or {}
            self.add(number, role, own)

    def add(
        self,
        node_id: int,
        roles: str = "broker",
        config: Mapping[str, str] | None = None,
    ) -> Node:
        """One more node, formatted and not started; one that only is a broker joins as it is."""
        port, spare = free_ports(2)
        controller_port = self._controllers.get(node_id, spare)
        settings = {
            **settings_of(node_id, roles, port, controller_port, self._protocol),
            **self._protocols,
            **self._quorum,
            **self._replication,
            **self._config,
            **(config or {}),
        }
        node = self.nodes[node_id] = Node(
            node_id,
            roles,
            self.directory(node_id),
            port if "broker" in roles else controller_port,
            controller_port,
            settings,
            self._start_seconds_max,
        )
        self._format(node_id)
        return node

    # -- the nodes --------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """What a client's `bootstrap.servers` wants: all brokers."""
        return ",".join(f"{HOST}:{each.port}" for each in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        """What a tool's `--bootstrap-controller` wants."""
        controllers = [each for each in self.nodes.values() if each.is_controller]
        return ",".join(f"{HOST}:{each.controller_port}" for each in controllers)

    @property
    def brokers(self) -> list[Node]:
        return [each for each in self.nodes.values() if each.is_broker]

    def node(self, node_id: int) -> Node:
        """The node with an id; the first one is 1."""
        return self.nodes[node_id]

    def directory(self, node_id: int) -> str:
        """Where a node keeps its data."""
        return os.path.join(self._data, f"node-{node_id}")

    def erase(self, node_id: int) -> None:
        """Take a stopped node's disk away and give it an empty, formatted one."""
        if self.nodes[node_id].running:
            raise BrokerFailed(f"node {node_id} is running: stop it first")
        shutil.rmtree(self.directory(node_id))
        self._format(node_id)

    def _format(self, node_id: int) -> None:
        """As `penstock storage format --ignore-formatted` does: data that was kept stays."""
        chance, node = SystemChance(), self.nodes[node_id]
        paths = node.config.get("log.dirs", node.data).split(",")
        metadata = node.config.get("metadata.log.dir", paths[0])
        formatter = Formatter(Disk(), paths, metadata)
        identity = Identity(self.id, node_id, voters=self._first_voters)
        for directory in formatter.unformatted(identity):
            os.makedirs(directory, exist_ok=True)
            formatter.format(directory, identity, SystemClock().now(), chance)

    def active_controller(self, seconds_max: float = 30.0, door: Door | None = None) -> int:
        """The id of the controller that decides now, as the brokers that run tell it.

        A `door` tells how to enter their listeners, where these are not open.
        """
        import asyncio

        ports = [each.port for each in self.brokers if each.running]
        return asyncio.run(find_leader(ports, seconds_max, door))

    # -- together ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all nodes that do not run, and return when all of them take requests."""
        begun = [each for each in self.nodes.values() if not each.running]
        for each in begun:
            each.begin()
        for each in begun:
            each.wait_ready()

    def kill(self) -> None:
        """End all nodes that run with SIGKILL, at once, as a power cut would."""
        running = [each for each in self.nodes.values() if each.running]
        for each in running:
            os.kill(each.pid, signal.SIGKILL)
        for each in running:
            each.reap()

    def close(self) -> None:
        """End every node, and remove the data unless it was to be kept.

        One after the other they would hand over to each other, which nobody is there to see: the
        test is over.
        """
        try:
            self.kill()
        finally:
            if not self._kept:
                shutil.rmtree(self._data, ignore_errors=True)

    @property
    def log(self) -> str:
        """What all nodes printed, node by node."""
        return "\n".join(f"--- node {each.id}\n{each.log}" for each in self.nodes.values())

    def __enter__(self) -> Cluster:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, _: object, problem: BaseException | None, __: object) -> None:
        if problem is not None:
            problem.add_note(self.log[-20_000:])
        self.close()


async def find_leader(ports: Sequence[int], seconds_max: float, door: Door | None = None) -> int:
    """Who leads the metadata log, as brokers on these ports tell it."""
    import asyncio

    from penstock.net.peer import Peer, PeerLost
    from penstock.protocol.generated import describe_quorum as made

    topic = made.DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata",
        partitions=[made.DescribeQuorumRequestPartitionData(partition_index=0)],
    )
    async with asyncio.timeout(seconds_max):
        while True:
            for port in ports:
                peer = Peer(HOST, port, "cluster", door)
                try:
                    told = await peer.ask(made.DescribeQuorumRequest(topics=[topic]), seconds_max)
                except PeerLost:
                    continue
                finally:
                    peer.close()
                if not told.error_code and told.topics[0].partitions[0].leader_id >= 0:
                    leader: int = told.topics[0].partitions[0].leader_id
                    return leader
            await asyncio.sleep(0.1)


def settings_of(
    node_id: int, roles: str, port: int, controller_port: int, protocol: str
) -> dict[str, str]:
    """What makes a node one of several, in Kafka's own keys."""
    listeners = []
    if "broker" in roles:
        listeners.append(f"{protocol}://{HOST}:{port}")
    if "controller" in roles:
        listeners.append(f"CONTROLLER://{HOST}:{controller_port}")
    return {
        "node.id": str(node_id),
        "process.roles": roles,
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(listeners),
    }


def quorum_settings(controllers: Mapping[int, int], *, dynamic: bool) -> dict[str, str]:
    """How every node finds the controllers, which are given with their ports."""
    if dynamic:
        known = ",".join(f"{HOST}:{port}" for port in controllers.values())
        return {"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": known}
    voters = ",".join(f"{number}@{HOST}:{port}" for number, port in controllers.items())
    return {"controller.quorum.voters": voters}


def _voters(controllers: Mapping[int, int], protocol: str) -> Voters:
    chance, security = SystemChance(), security_number(protocol)
    return Voters(
        {
            number: Voter(number, chance.uuid(), (Endpoint("CONTROLLER", HOST, port, security),))
            for number, port in controllers.items()
        },
        DYNAMIC_FROM,
    )


def replication_settings(brokers: int) -> dict[str, str]:
    """Internal topics with as many replicas as a small cluster can hold, at most Kafka's three."""
    replicas = str(min(brokers, REPLICATION_MAX))
    in_sync = str(min(brokers, REPLICATION_MAX - 1))
    return {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }

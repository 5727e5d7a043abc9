"""A cluster in one process: machines, a network, clients, and a seed that decides everything."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from penstock.model.errors import ErrorCode
from penstock.net.peer import PeerLost
from penstock.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.testing.history import History, Place, Recorder
from penstock.testing.sim.clients.talk import Address, Talk
from penstock.testing.sim.loop import SimulatedLoop
from penstock.testing.sim.network import SimulatedNetwork
from penstock.testing.sim.node import Machine
from penstock.testing.sim.process import Process

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
GROUP_RESOURCE = 32
CLUSTER_ID = "simulated-cluster-abcd"

QUICK: dict[str, str] = {
    "broker.heartbeat.interval.ms": "400",
    "broker.session.timeout.ms": "2500",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "500",
    "controller.quorum.request.timeout.ms": "1000",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "300",
    "replica.fetch.backoff.ms": "200",
    "request.timeout.ms": "3000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "2000",
    "group.share.delivery.count.limit": "10",
    "group.share.initialize.retry.interval.ms": "1000",
    "group.streams.min.session.timeout.ms": "3000",
    "group.streams.session.timeout.ms": "3000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.assignment.interval.ms": "300",
    "group.streams.initial.rebalance.delay.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "2000",
    "log.flush.offset.checkpoint.interval.ms": "3000",
}
"""Settings of a cluster whose half minute is to be as full as another's half hour."""

ROLES = "process.roles"

Teller = Callable[[str], None]


class Cluster:
    """Everything in one simulated world."""

    def __init__(
        self,
        seed: int,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        teller: Teller | None = None,
        *,
        apart: bool = False,
    ) -> None:
        """`apart` puts the controllers on machines of their own."""
        self.dice = random.Random(seed)
        self.loop = SimulatedLoop()
        self.network = SimulatedNetwork(self.loop, self.dice)
        self.teller = teller
        self.recorders: list[Recorder] = []
        self.client_hosts: list[str] = []
        self.forgetful: int | None = None
        """The node that lost what it had not synced, until it has all of it again."""
        self.machines: dict[int, Machine] = {}
        """By node id."""
        brokers = range(1, nodes + 1)
        voters = range(101, 101 + nodes) if apart else brokers
        quorum = {
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{each}@{_host(each)}:9093" for each in voters),
        }
        for number in dict.fromkeys((*voters, *brokers)):
            roles = {"controller": number in voters, "broker": number in brokers}
            self._add(number, roles, {**quorum, **_replicated(nodes), **(settings or {})})

    def _add(self, number: int, roles: Mapping[str, bool], settings: Mapping[str, str]) -> None:
        listeners = []
        if roles["broker"]:
            listeners.append(f"PLAINTEXT://{_host(number)}:{BROKER_PORT}")
        if roles["controller"]:
            listeners.append(f"CONTROLLER://{_host(number)}:{CONTROLLER_PORT}")
        own = {
            "node.id": str(number),
            "process.roles": ",".join(role for role, has in roles.items() if has),
            "listeners": ",".join(listeners),
            "log.dirs": "/data",
        }
        machine = Machine(
            number, _host(number), {**QUICK, **settings, **own}, self.loop, self.network, self.dice
        )
        machine.on_end = lambda why: self.tell(f"node {number} ended: {why}")
        self.format(machine)
        self.machines[number] = machine

    def format(self, machine: Machine) -> None:
        """Make a new disk ready."""
        machine.format(CLUSTER_ID)

    def tell(self, what: str) -> None:
        """Add a line to the transcript."""
        if self.teller is not None:
            self.teller(f"{self.loop.now:9.4f}  {what}")

    # -- clients ------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> Sequence[Address]:
        return [(machine.host, BROKER_PORT) for machine in self.brokers]

    @property
    def brokers(self) -> list[Machine]:
        """The machines that clients talk to."""
        return [each for each in self.machines.values() if "broker" in each.settings[ROLES]]

    def recorder(self, name: str) -> Recorder:
        """The notes of a new client; times are the simulation's."""
        made = Recorder(name, clock=self.nanoseconds)
        self.recorders.append(made)
        return made

    def nanoseconds(self) -> int:
        """The simulation's time."""
        # The number of events as well: much happens in no time, and yet in an order.
        return int(self.loop.now * 1_000_000_000) + self.loop.events % 1000

    def talk(self, name: str) -> Talk:
        return Talk(name, self.bootstrap, self.dice)

    def client(self, name: str, work: Coroutine[Any, Any, Any]) -> Process:
        """Let a client run on a host of its own."""
        process = Process(name)
        self.client_hosts.append(name)
        self.network.boot(process)
        process.spawn(work)
        return process

    @property
    def history(self) -> History:
        return History.of(*self.recorders)

    # -- waiting ------------------------------------------------------------------------------

    async def until(self, what: Callable[[], bool], seconds_max: float, why: str) -> None:
        """Let time pass until something is so; AssertionError if it never is."""
        deadline = self.loop.now + seconds_max
        while not what():
            assert self.loop.now < deadline, f"after {seconds_max:g} s still not so: {why}"
            await asyncio.sleep(0.05)

    async def create_topic(self, name: str, partitions: int, **configs: str) -> None:
        """Ask for a topic until it is there; runs as a client."""
        talk = self.talk("admin")
        configs_wanted = [
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ]
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=-1,
                    configs=configs_wanted,
                )
            ],
            timeout_ms=2000,
        )
        while True:
            try:
                answer = (await talk.ask(talk.any_broker(), request)).topics[0]
            except PeerLost:
                await talk.pause()
                continue
            if answer.error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
                break
            self.tell(f"admin: {ErrorCode(answer.error_code).name} {answer.error_message}")
            await talk.pause()
        talk.close()

    async def configure_group(self, group: str, configs: Mapping[str, str]) -> None:
        """Set a group's configuration, whatever it takes; runs as a client."""
        talk = self.talk("admin")
        resource = AlterConfigsResource(
            resource_type=GROUP_RESOURCE,
            resource_name=group,
            configs=[
                AlterableConfig(name=key, config_operation=0, value=value)
                for key, value in configs.items()
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        while True:
            try:
                answer = (await talk.ask(talk.any_broker(), request)).responses[0]
            except PeerLost:
                await talk.pause()
                continue
            if not answer.error_code:
                break
            self.tell(f"admin: {ErrorCode(answer.error_code).name} {answer.error_message}")
            await talk.pause()
        talk.close()

    def places(self, topic: str, partitions: int) -> list[Place]:
        return [Place(topic, index) for index in range(partitions)]


def _host(number: int) -> str:
    return f"node-{number}"


def _replicated(nodes: int) -> dict[str, str]:
    """Three replicas, of which two must be in sync, as far as there are so many nodes."""
    replicas, in_sync = str(min(3, nodes)), str(min(2, nodes))
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }

"""A streams group in the cluster: its members, its topics, and what must be so in the end."""

from __future__ import annotations

from penstock.metadata.topics import TopicImage
from penstock.testing.sim.clients.streams import (
    REBALANCE_MS,
    StreamsThread,
    changelog,
    handed_on,
)
from penstock.testing.sim.clients.streams_ledger import Task, TaskLedger
from penstock.testing.sim.clients.talk import Address
from penstock.testing.sim.clients.violation import Violation
from penstock.testing.sim.cluster import Cluster
from penstock.testing.sim.node import Machine

GROUP = "words"
MEMBERS = 3
SECONDS_MAX = 40.0
PATIENCE_SECONDS = 2.99
"""Sessions of members, and the time that they have to let tasks go, are a little longer."""


class Streaming:
    """Groups differ: some keep a second copy of each state."""

    def __init__(self, cluster: Cluster, source: str, partitions: int, seed: int) -> None:
        self.ledger = TaskLedger(PATIENCE_SECONDS, REBALANCE_MS / 1000)
        self._cluster = cluster
        self._source = source
        self._partitions = partitions
        self._standbys = seed % 2
        self._members: list[StreamsThread] = []
        self._topics: dict[str, bytes] = {}

    @property
    def progress(self) -> int:
        """How often members were told that they are some."""
        return sum(member.reports for member in self._members)

    async def prepare(self) -> None:
        if self._standbys:
            configs = {"streams.num.standby.replicas": str(self._standbys)}
            made = self._cluster.configure_group(GROUP, configs)
            await self._cluster.client("admin-words", made).tasks[0]

    def start(self) -> None:
        for number in range(MEMBERS):
            name = f"words-{number}"
            talk = self._cluster.talk(name)
            member = StreamsThread(talk, GROUP, self._source, self.ledger, self._epoch_at)
            self._members.append(member)
            self._cluster.client(name, member.run())

    def look(self) -> None:
        """Internal topics are made once, and as they should be."""
        for machine in self._cluster.brokers:
            if machine.node is None or not machine.started:
                continue
            by_name = machine.node.broker.image.topics.by_name
            for name in (handed_on(self._source), changelog(self._source)):
                if name in by_name:
                    self._look_at(by_name[name])

    def _look_at(self, topic: TopicImage) -> None:
        if self._topics.setdefault(topic.name, topic.id) != topic.id:
            raise Violation(f"the internal topic {topic.name} was made twice")
        if len(topic.partitions) != self._partitions:
            raise Violation(f"{topic.name} has {len(topic.partitions)} partitions")

    # -- the end ------------------------------------------------------------------------------

    def stop(self) -> None:
        """Nobody goes any more."""
        for member in self._members:
            member.calm = True

    async def finish(self) -> None:
        """In the end each task is run, by one member."""
        wanted = self._tasks()
        await self._cluster.until(
            lambda: self.ledger.running() == wanted,
            SECONDS_MAX,
            f"each of {len(wanted)} tasks is run by one member",
        )
        for member in self._members:
            member.stopping = True
        self._cluster.tell(f"{MEMBERS} members run {len(wanted)} tasks")

    def _tasks(self) -> list[Task]:
        return [(it, number) for it in ("0", "1") for number in range(self._partitions)]

    # -- looking into the nodes -------------------------------------------------------------------

    def _epoch_at(self, address: Address) -> int:
        """In which epoch of the group's shard a node believes; -1 if it is down."""
        machine = next(each for each in self._cluster.brokers if each.host == address[0])
        return _shard_epoch(machine)


def _shard_epoch(machine: Machine) -> int:
    if machine.node is None or not machine.started:
        return -1
    broker = machine.node.broker
    index = broker.coordinators.groups.index_of(GROUP)
    partition = broker.hosted.get(("__consumer_offsets", index))
    return -1 if partition is None else partition.leader_epoch

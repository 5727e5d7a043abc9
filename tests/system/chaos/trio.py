"""Three nodes, each behind wires that can be cut, on disks that can fail.

Everybody reaches a node through the proxy, which knows who is calling: `node-1` is the broker's
listener of node 1, `controller-1` its controller's. Sources are `node-1`..`node-3` and `client`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.testing.history import Place
from penstock.testing.ports import free_ports
from penstock.testing.proxy import Proxy, owner_of
from tests.oracle.nodes import CLUSTER_ID, Node, PenstockNode
from tests.oracle.wire import Wire, metadata
from tests.system.chaos.disks import Folder, make_disk

IDS = (1, 2, 3)
SESSION_SECONDS = 3.0
SETTLE_SECONDS_MAX = 60.0
ASK_SECONDS_MAX = 5.0

QUICK: Mapping[str, str] = {
    # Faults are noticed in seconds, so that a game of minutes has many of them.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.request.timeout.ms": "1500",
    "controller.quorum.election.backoff.max.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    # Three replicas of everything, two of which must have what is acknowledged.
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class Unsettled(AssertionError):
    """The nodes did not become one healthy cluster in time."""


class Standing(NamedTuple):
    """What metadata says of a partition."""

    leader: int
    in_sync: tuple[int, ...]
    replicas: tuple[int, ...]


class Member:
    """A node, its disks, and where it can be reached."""

    def __init__(self, number: int, where: Path, proxy: Proxy) -> None:
        self.number = number
        self.name = f"node-{number}"
        self.controller = f"controller-{number}"
        self.port, self.controller_port = free_ports(2)
        self.via = proxy.forward(self.name, "127.0.0.1", self.port)
        self.controller_via = proxy.forward(self.controller, "127.0.0.1", self.controller_port)
        self.where = where / self.name
        self.disks: list[Folder] = []
        self.node: Node = PenstockNode(self.where, port=self.port)

    def log_directories(self) -> list[Path]:
        return [disk.path / "logs" for disk in self.disks]

    def kill(self) -> None:
        if self.node.running:
            self.node.kill()

    def pause(self) -> None:
        assert self.node.process is not None
        self.node.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self.node.running:
            assert self.node.process is not None
            self.node.process.send_signal(signal.SIGCONT)


class Trio:
    """Three combined nodes. `make` may give another kind of node, Apache Kafka's for one."""

    def __init__(
        self,
        where: Path,
        make: Callable[..., Node] = PenstockNode,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.where = where
        self.proxy = Proxy(self._who)
        self.members: dict[int, Member] = {}
        self._make = make
        self._config = dict(config or {})

    def __enter__(self) -> Trio:
        self.proxy.__enter__()
        try:
            self._found()
            for member in self.members.values():
                member.node.launch()
            self.wait_registered()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything, whatever state it is in."""
        for member in self.members.values():
            member.kill()
        self.proxy.close()
        for member in self.members.values():
            for disk in member.disks:
                disk.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{member.via}" for member in self.members.values())

    def _found(self) -> None:
        for number in IDS:
            self.members[number] = Member(number, self.where, self.proxy)
        for member in self.members.values():
            member.disks = [make_disk(member.where / f"disk-{each}") for each in range(2)]
            member.node = self._make(
                member.where,
                config=self._properties(member),
                data=member.log_directories()[0],
                port=member.port,
            )
            member.node.controller_port = member.controller_port
            format_disks(member)

    def _properties(self, member: Member) -> dict[str, str]:
        voters = ",".join(
            f"{each.number}@127.0.0.1:{each.controller_via}" for each in self.members.values()
        )
        return {
            "node.id": str(member.number),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{member.port},"
            f"CONTROLLER://127.0.0.1:{member.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{member.via},"
            f"CONTROLLER://127.0.0.1:{member.controller_via}",
            "log.dirs": ",".join(str(each) for each in member.log_directories()),
            "metadata.log.dir": str(member.log_directories()[0]),
            **QUICK,
            **self._config,
        }

    def _who(self, port: int, to: int) -> str | None:
        running = {
            member.name: member.node.pid for member in self.members.values() if member.node.running
        }
        return owner_of(port, to, running)

    # -- what it looks like -------------------------------------------------------------------

    @cached_property
    def admin(self) -> AdminClient:
        """A client that does not wait long for anybody."""
        return AdminClient(
            {
                "bootstrap.servers": self.bootstrap,
                "socket.timeout.ms": int(ASK_SECONDS_MAX * 1000),
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def create(self, *places: tuple[str, int]) -> list[Place]:
        """Create topics with so many partitions, wait until they are led, and list the places."""
        wanted = [NewTopic(name, count, replication_factor=3) for name, count in places]
        for made in self.admin.create_topics(wanted, request_timeout=30).values():
            made.result(SETTLE_SECONDS_MAX)
        made_places = [Place(name, number) for name, count in places for number in range(count)]
        for place in made_places:
            self.leader(place)
        self.wait_settled()
        return made_places

    def standings(self) -> dict[Place, Standing]:
        """Every partition, as somebody sees it who is up; raises KafkaException if nobody is."""
        found = self.admin.list_topics(timeout=ASK_SECONDS_MAX)
        return {
            Place(name, number): Standing(each.leader, tuple(each.isrs), tuple(each.replicas))
            for name, topic in found.topics.items()
            for number, each in topic.partitions.items()
        }

    def leader(self, place: Place) -> int:
        """Who leads, asked until somebody does."""
        for standings in self._until("has a leader"):
            standing = standings.get(place)
            if standing is not None and standing.leader in IDS:
                return standing.leader
        raise AssertionError("not reached")

    def leaders_seen_by(self, number: int, topic: str) -> dict[int, int]:
        """Who leads each partition, as one node knows it, asked past all wires."""
        with Wire(self.members[number].port) as wire:
            return metadata(wire)[topic].leaders

    def active_controller(self) -> int:
        """Who leads the quorum, by the newest vote that was written down anywhere."""
        newest = (-1, -1)
        for member in self.members.values():
            path = member.log_directories()[0] / "__cluster_metadata-0" / "quorum-state"
            try:
                state = json.loads(path.read_text())
            except (OSError, ValueError):
                continue  # a disk may have failed, a file may be about to be replaced
            newest = max(newest, (state["leaderEpoch"], state["leaderId"]))
        return newest[1] if newest[1] in IDS else IDS[0]

    # -- waiting for it to be well ------------------------------------------------------------

    def wait_registered(self, seconds_max: float = SETTLE_SECONDS_MAX) -> None:
        """Until all nodes are part of the cluster."""
        deadline = time.monotonic() + seconds_max
        seen: object = None
        while time.monotonic() < deadline:
            self._check_running()
            try:
                seen = sorted(self.admin.list_topics(timeout=ASK_SECONDS_MAX).brokers)
            except KafkaException as nobody:
                seen = nobody
            if seen == list(IDS):
                return
            time.sleep(0.1)
        raise Unsettled(f"the cluster has members {seen} after {seconds_max:g} s{self._tails()}")

    def wait_settled(self, seconds_max: float = SETTLE_SECONDS_MAX) -> None:
        """Until every replica of every partition is in sync."""
        self.wait_registered(seconds_max)
        for standings in self._until("is whole", seconds_max):
            if all(
                each.leader in IDS and set(each.in_sync) == set(each.replicas)
                for each in standings.values()
            ):
                return

    def _until(
        self, what: str, seconds_max: float = SETTLE_SECONDS_MAX
    ) -> Iterator[dict[Place, Standing]]:
        deadline = time.monotonic() + seconds_max
        standings: dict[Place, Standing] = {}
        while time.monotonic() < deadline:
            try:
                standings = self.standings()
            except KafkaException:
                time.sleep(0.1)
                continue
            yield standings
            time.sleep(0.1)
        broken = {
            str(place): each
            for place, each in standings.items()
            if set(each.in_sync) != set(each.replicas)
        }
        raise Unsettled(
            f"no cluster that {what} in {seconds_max:g} s; out of sync: {broken}{self._tails()}"
        )

    def _check_running(self) -> None:
        for member in self.members.values():
            if not member.node.running:
                raise Unsettled(f"{member.name} ended by itself{self._tails()}")

    def _tails(self) -> str:
        return "".join(
            f"\n--- {member.name}\n{member.node.output()[-3000:]}"
            for member in self.members.values()
        )


def format_disks(member: Member) -> None:
    """Let the node's directories belong to the cluster."""
    for path in member.log_directories():
        path.mkdir(parents=True, exist_ok=True)
    if not isinstance(member.node, PenstockNode):
        return  # Apache's does it by itself
    member.node.write_properties()
    done = subprocess.run(
        [*member.node.command()[:3], "storage", "format", "-t", CLUSTER_ID, "-c",
         str(member.node.properties_path), "--ignore-formatted"],
        capture_output=True, text=True, timeout=60, env=member.node.environment(), check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise Unsettled(f"cannot format {member.name}: {done.stderr or done.stdout}")

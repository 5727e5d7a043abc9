"""Three nodes as one cluster, each of either make: for comparisons, and for mixed company."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from penstock.testing.cluster import find_leader
from tests.oracle.nodes import START_SECONDS_MAX, Node, NodeFailed

REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}

Make = Callable[[Path], Node]
"""Makes a node in a directory; its ports are its own."""


class Trio:
    """Nodes 1 to 3 (or more), brokers and controllers all."""

    def __init__(
        self,
        directory: Path,
        makes: Sequence[Make],
        config: Mapping[str, str] | None = None,
        client: Mapping[str, Any] | None = None,
    ) -> None:
        self.directory = directory
        self._client = dict(client or {})  # what lets the test itself in
        self.nodes = {
            number: make(directory / f"node-{number}") for number, make in enumerate(makes, 1)
        }
        self.config = {**REPLICATED, **(config or {})}
        for number in self.nodes:
            self._introduce(number)

    def _introduce(self, number: int) -> None:
        node = self.nodes[number]
        node.config = {**node.config, **self.config, "node.id": str(number)}
        node.config["controller.quorum.voters"] = ",".join(
            f"{each}@127.0.0.1:{other.controller_port}" for each, other in self.nodes.items()
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    @property
    def pids(self) -> list[int]:
        return [node.pid for node in self.nodes.values() if node.running]

    def start(self) -> None:
        """Start all that do not run, and wait until each of them is part of the cluster."""
        for node in self.nodes.values():
            if not node.running:
                node.launch()
        self.wait_for(set(self.nodes))

    def wait_for(self, wanted: set[int]) -> None:
        """Until exactly these brokers are known."""
        deadline = time.monotonic() + 2 * START_SECONDS_MAX
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **self._client})
        while self._known(admin) != wanted:
            for node in self.nodes.values():
                if node.process is not None and not node.running:
                    raise NodeFailed(f"{node.name} ended:\n{node.output()[-4000:]}")
            if time.monotonic() > deadline:
                outputs = "\n".join(node.output()[-2000:] for node in self.nodes.values())
                raise NodeFailed(f"brokers {wanted} are not all there:\n{outputs}")
            time.sleep(0.1)

    def _known(self, admin: AdminClient) -> set[int]:
        from confluent_kafka import KafkaException

        try:
            return set(admin.list_topics(timeout=5).brokers)
        except KafkaException:
            return set()

    def replace(self, number: int, make: Callable[[Node], Node]) -> None:
        """Put another make of node in the place of a stopped one, over the same data and ports."""
        old = self.nodes[number]
        assert not old.running, f"node {number} is running"
        new = make(old)
        new.port, new.controller_port = old.port, old.controller_port
        self.nodes[number] = new
        self._introduce(number)

    def complaints(self) -> list[str]:
        """What the nodes printed that should not happen in any company."""
        return [
            f"{number} ({node.name}): {each}"
            for number, node in self.nodes.items()
            for each in node.complaints()
        ]

    def active_controller(self) -> int:
        """Who leads the metadata log. (The controller that Metadata names is any broker.)"""
        ports = [node.port for node in self.nodes.values()]
        return asyncio.run(find_leader(ports, START_SECONDS_MAX))

    def close(self) -> None:
        """End all at once: nobody hands over to anybody."""
        for node in self.nodes.values():
            if node.running:
                node.kill()

    def __enter__(self) -> Trio:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""Several whole nodes inside one event loop, and a client that knows whom to ask."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.app.node import Node
from penstock.app.settings import settings_for_up
from penstock.coordination.keys import shard_of
from penstock.metadata.topics import PartitionImage
from penstock.model.config.node import NodeConfig
from penstock.net.peer import PeerLost
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.message import Message
from penstock.storage.checkpoints import META_PROPERTIES, format_properties
from penstock.testing.cluster import BOTH, quorum_settings, replication_settings, settings_of
from penstock.testing.ports import HOST, free_ports
from tests.unit.server.asking import Asker, asking

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
WAIT_SECONDS_MAX = 30

_COORDINATED = {
    ApiKey.INIT_PRODUCER_ID: "transactional_id",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactional_id",
    ApiKey.END_TXN: "transactional_id",
    ApiKey.TXN_OFFSET_COMMIT: "group_id",
}


class Several:
    """The nodes, by id; and how a client reaches the right one."""

    def __init__(self, nodes: dict[int, Node], askers: dict[int, Asker]) -> None:
        self.nodes = nodes
        self.askers = askers

    @property
    def image(self) -> Any:
        """What the node that knows most says of the cluster."""
        return max((it.broker.image for it in self.nodes.values()), key=lambda it: it.offset)

    def state(self, topic: str, index: int) -> PartitionImage | None:
        found = self.image.topics.by_name.get(topic)
        return None if found is None else found.partitions.get(index)

    def leader(self, topic: str, index: int) -> int:
        state = self.state(topic, index)
        return -1 if state is None else state.leader

    def coordinator(self, topic: str, key: str) -> int:
        found = self.image.topics.by_name[topic]
        return self.leader(topic, shard_of(key, len(found.partitions)))

    async def until(self, true: Any, what: str) -> None:
        """Wait for something to become true."""
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while not true():
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"never {what}") from None

    async def create(
        self, name: str, partitions: int = 3, replicas: int = 1, **configs: str
    ) -> bytes:
        """A topic that every node knows; its id."""
        from penstock.protocol.generated.create_topics import (
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
        )

        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        made = (await self.askers[1].ask(request, 7)).topics[0]
        assert made.error_code == 0, made
        await self.until(
            lambda: all(name in it.broker.image.topics.by_name for it in self.nodes.values()),
            f"{name} on every node",
        )
        for node in self.nodes.values():
            await node.broker.settled()
        topic_id: bytes = made.topic_id
        return topic_id

    async def stop(self, node_id: int) -> None:
        """Stop one node, in good order."""
        self.askers.pop(node_id).close()
        await self.nodes.pop(node_id).stop()

    # -- an asker, as far as `Talk` wants one ------------------------------------------------------

    async def ask(self, request: Any, version: int) -> Any:
        """Ask whoever leads or coordinates what the request is about."""
        return await self.askers[self._whom(request)].ask(request, version)

    def _whom(self, request: Message) -> int:
        any_request: Any = request
        key = ApiKey(request.API_KEY)
        if key == ApiKey.PRODUCE:
            topic = any_request.topic_data[0]
            return self._leader(topic.name, topic.partition_data[0].index)
        if key == ApiKey.FETCH:
            topic = any_request.topics[0]
            return self._leader(topic.topic, topic.partitions[0].partition)
        if key == ApiKey.DESCRIBE_TRANSACTIONS:
            return self.coordinator("__transaction_state", any_request.transactional_ids[0])
        if key == ApiKey.OFFSET_FETCH:
            return self.coordinator("__consumer_offsets", any_request.groups[0].group_id)
        if key == ApiKey.ADD_PARTITIONS_TO_TXN:
            name = any_request.v3_and_below_transactional_id
            return self.coordinator("__transaction_state", name)
        name = getattr(any_request, _COORDINATED[key])
        is_group = _COORDINATED[key] == "group_id"
        return self.coordinator("__consumer_offsets" if is_group else "__transaction_state", name)

    def _leader(self, topic: str, index: int) -> int:
        found = self.leader(topic, index)
        assert found in self.askers, f"{topic}-{index} is led by {found}"
        return found


@asynccontextmanager
async def several_nodes(
    directory: Path, count: int = 3, config: Mapping[str, str] | None = None
) -> AsyncIterator[Several]:
    """A cluster that is up."""
    numbers = range(1, count + 1)
    ports = dict(zip(numbers, free_ports(count), strict=True))
    controller_ports = dict(zip(numbers, free_ports(count), strict=True))
    failures: list[str] = []
    nodes = {}
    for number in numbers:
        path = directory / f"node-{number}"
        _format(path, number)
        settings = settings_for_up(
            str(path),
            HOST,
            ports[number],
            {
                **settings_of(number, BOTH, ports[number], controller_ports[number], "PLAINTEXT"),
                **quorum_settings(controller_ports, dynamic=False),
                **replication_settings(count),
                "controlled.shutdown.enable": "false",  # all stop at once
                **(config or {}),
            },
        )
        nodes[number] = Node(NodeConfig.of(settings), lambda: failures.append("a log failed"))
    await asyncio.gather(*(node.start() for node in nodes.values()))
    try:
        async with AsyncExitStack() as stack:
            askers = {
                number: await stack.enter_async_context(asking(ports[number])) for number in numbers
            }
            yield Several(nodes, askers)
    finally:
        await asyncio.gather(*(node.stop() for node in nodes.values()))  # those that still run
    assert not failures


def _format(path: Path, number: int) -> None:
    path.mkdir(parents=True)
    values = {
        "version": "1",
        "cluster.id": CLUSTER_ID,
        "node.id": str(number),
        "directory.id": f"{'B' * 20}{number}A",
    }
    (path / META_PROPERTIES).write_text(format_properties(values))


class BadLine:
    """Loses and doubles what a broker asks of its neighbours about transactions."""

    PURPOSES = ("markers", "transactions")

    def __init__(self, node: Node, chance: random.Random) -> None:
        self._ask = node.broker.neighbours.ask
        self._chance = chance
        self.faults = 0
        self.is_good = False
        neighbours: Any = node.broker.neighbours
        neighbours.ask = self.ask

    async def ask(
        self, node_id: int, request: Any, seconds_max: float, purpose: str = "requests"
    ) -> Any:
        fault = self._chance.choice(("none", "none", "request", "answer", "twice", "late"))
        if self.is_good or purpose not in self.PURPOSES or fault == "none":
            return await self._ask(node_id, request, seconds_max, purpose)
        self.faults += 1
        if fault == "late":
            await asyncio.sleep(0.05)
        if fault == "request":
            raise PeerLost("the request was lost")
        answer = await self._ask(node_id, request, seconds_max, purpose)
        if fault == "twice":
            return await self._ask(node_id, request, seconds_max, purpose)
        if fault == "answer":
            raise PeerLost("the answer was lost")
        return answer

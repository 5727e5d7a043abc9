"""Partitions move from broker to broker while clients are at work, and nobody notices."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.net.peer import Peer
from penstock.protocol.generated import alter_partition_reassignments as apr
from penstock.protocol.generated import elect_leaders as el
from penstock.protocol.generated import list_partition_reassignments as lpr
from penstock.testing.cluster import BOTH, Cluster
from tests.system.test_replication import QUIET, SETTINGS, Writer, read_all, until

BROKERS = [1, 2, 3, 4]
TOPIC = "moving"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(4, roles=[BOTH, BOTH, BOTH, "broker"], config=SETTINGS) as made:
        admin = AdminClient({"bootstrap.servers": made.bootstrap_servers, **QUIET})
        admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(20)
        yield made


def ask(cluster: Cluster, request: Any) -> Any:
    """Ask node 1, which is never lost."""

    async def once() -> Any:
        peer = Peer("127.0.0.1", cluster.node(1).port, "operator")
        try:
            return await peer.ask(request, 20)
        finally:
            peer.close()

    return asyncio.run(once())


def move(cluster: Cluster, replicas: list[int] | None) -> int:
    """Begin a move, or call it off; the error."""
    partition = apr.ReassignablePartition(partition_index=0, replicas=replicas)
    topic = apr.ReassignableTopic(name=TOPIC, partitions=[partition])
    answer = ask(cluster, apr.AlterPartitionReassignmentsRequest(topics=[topic]))
    error: int = answer.responses[0].partitions[0].error_code
    return error


def moving(cluster: Cluster) -> bool:
    return bool(ask(cluster, lpr.ListPartitionReassignmentsRequest(topics=None)).topics)


def test_moves_to_and_fro_lose_and_double_nothing_even_if_a_broker_dies_on_the_way(
    cluster: Cluster,
) -> None:
    chance = random.Random(6)
    writer = Writer(cluster, TOPIC, **{"enable.idempotence": "true", "linger.ms": "2"})
    for turn in range(24):
        writer.write(200, size=500)
        assert move(cluster, chance.sample(BROKERS, 3)) == 0
        if turn % 4 == 3:
            writer.write(20)
            move(cluster, None)  # it may be complete by now, and there is nothing to call off
        if turn == 12:
            cluster.node(4).kill()
            writer.write(200)
            cluster.node(4).start()
        give_up = time.monotonic() + 30
        while moving(cluster):
            assert time.monotonic() < give_up, "a move never ended"
            writer.write(5)
            time.sleep(0.02)
        if turn % 3 == 2:
            ask(cluster, el.ElectLeadersRequest(topic_partitions=None))
    writer.settle()
    assert not writer.refused
    found = until(
        lambda: it if len(it := read_all(cluster, TOPIC)) >= len(writer.acknowledged) else [],
        "all that was acknowledged",
    )
    assert found == writer.acknowledged

"""Several nodes are one cluster: they find each other, decide together, and go on without one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    NewTopic,
)

from penstock.model.errors import ErrorCode
from penstock.net.peer import Peer
from penstock.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.generated.alter_partition import AlterPartitionRequest
from penstock.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.generated.broker_registration import BrokerRegistrationRequest
from penstock.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.generated.envelope import EnvelopeRequest
from penstock.protocol.headers import write_request_header
from penstock.security.principal import ANONYMOUS
from penstock.server.senders import packed_principal
from penstock.testing.broker import BrokerFailed
from penstock.testing.cluster import Cluster, Node

HASTY = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "800",
    "controller.quorum.election.backoff.max.ms": "200",
}
PATIENCE_SECONDS = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, config=HASTY) as made:
        yield made


def admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def create(servers: str, name: str, partitions: int = 1, replicas: int = 1) -> None:
    client = admin(servers)  # held: without it what was asked for is given up
    made = client.create_topics([NewTopic(name, partitions, replicas)])
    made[name].result(PATIENCE_SECONDS)


def seen_by(node: Node) -> ClusterMetadata:
    return admin(node.bootstrap_servers).list_topics(timeout=PATIENCE_SECONDS)


def eventually(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < until, f"{what}: not in {PATIENCE_SECONDS:g} s"
        time.sleep(0.05)


def leaders_of(node: Node, topic: str) -> list[int]:
    found = seen_by(node).topics.get(topic)
    return [] if found is None else [each.leader for each in found.partitions.values()]


def test_a_topic_made_through_any_node_is_seen_by_all_and_led_by_all(cluster: Cluster) -> None:
    for node in cluster.brokers:
        create(node.bootstrap_servers, f"through-{node.id}", partitions=6)
    for node in cluster.brokers:
        for maker in cluster.nodes:
            topic = f"through-{maker}"
            eventually(lambda n=node, t=topic: len(leaders_of(n, t)) == 6, f"{node} sees {topic}")  # type: ignore[misc]
            assert set(leaders_of(node, topic)) == {1, 2, 3}
        assert sorted(seen_by(node).brokers) == [1, 2, 3]


def test_records_go_to_every_node_and_come_back_from_all(cluster: Cluster) -> None:
    create(cluster.bootstrap_servers, "records", partitions=6)
    servers = {"bootstrap.servers": cluster.node(1).bootstrap_servers, "log_level": 0}
    producer = Producer({**servers, "enable.idempotence": True})
    for number in range(600):
        producer.produce("records", str(number), str(number), partition=number % 6)
    assert producer.flush(PATIENCE_SECONDS) == 0
    consumer = Consumer({**servers, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["records"])
    found: set[int] = set()
    until = time.monotonic() + PATIENCE_SECONDS
    while len(found) < 600 and time.monotonic() < until:
        found |= {int(m.value() or b"") for m in consumer.consume(600, 0.5) if not m.error()}
    consumer.close()
    assert found == set(range(600))


def test_a_controller_that_does_not_decide_says_so(cluster: Cluster) -> None:
    active = cluster.active_controller()
    standby = next(node for node in cluster.nodes.values() if node.id != active)
    topic = CreatableTopic(name="not-here", num_partitions=1, replication_factor=1)
    creation = CreateTopicsRequest(topics=[topic])
    inside = bytearray()
    write_request_header(inside, creation.API_KEY, 7, 1, "client")
    creation.write(7, inside)

    async def ask() -> list[int]:
        peer = Peer("127.0.0.1", standby.controller_port, "test")
        try:
            made = await peer.ask(creation, PATIENCE_SECONDS)
            others = [
                BrokerRegistrationRequest(broker_id=9, cluster_id=cluster.id),
                BrokerHeartbeatRequest(broker_id=1),
                AlterPartitionRequest(broker_id=1),
                AllocateProducerIdsRequest(broker_id=1),
                EnvelopeRequest(
                    request_data=bytes(inside),
                    request_principal=packed_principal(ANONYMOUS),
                    client_host_address=bytes(4),
                ),
            ]
            answers = [await peer.ask(each, PATIENCE_SECONDS) for each in others]
        finally:
            peer.close()
        return [made.topics[0].error_code] + [each.error_code for each in answers]

    assert asyncio.run(ask()) == [ErrorCode.NOT_CONTROLLER] * 6


def test_another_controller_takes_over_when_the_active_one_is_killed(cluster: Cluster) -> None:
    killed = cluster.active_controller()
    cluster.node(killed).kill()
    others = [node for node in cluster.brokers if node.id != killed]
    create(others[0].bootstrap_servers, "after-the-kill", partitions=4)
    eventually(lambda: len(leaders_of(others[1], "after-the-kill")) == 4, "the other one sees it")
    assert cluster.active_controller() != killed
    cluster.node(killed).start()
    eventually(lambda: len(leaders_of(cluster.node(killed), "after-the-kill")) == 4, "it is back")


def test_nodes_that_restart_one_after_the_other_hand_over_first(cluster: Cluster) -> None:
    create(cluster.bootstrap_servers, "rolled", partitions=6)
    for node in list(cluster.nodes.values()):
        node.stop()
        assert "handing over to 2 other brokers" in node.log
        assert "without the controller's leave" not in node.log
        node.start()
    create(cluster.bootstrap_servers, "after-the-roll")
    for node in cluster.brokers:
        eventually(lambda n=node: -1 not in leaders_of(n, "rolled"), "all are led again")  # type: ignore[misc]


def test_a_broker_joins_that_knows_one_controller_only_and_not_who_leads(
    cluster: Cluster,
) -> None:
    active = cluster.active_controller()
    other = next(node for node in cluster.nodes.values() if node.id != active)
    known = f"127.0.0.1:{other.controller_port}"
    only = {"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": known}
    with joining(cluster, 4, only) as node:
        node.start()
        create(node.bootstrap_servers, "through-4", partitions=8)
        eventually(lambda: 4 in leaders_of(other, "through-4"), "broker 4 leads its part")
        node.stop()


def test_a_second_process_with_an_id_that_is_alive_is_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    quick = {"initial.broker.registration.timeout.ms": "1500"}
    with joining(cluster, 5, quick) as first:
        first.start()
        twin = Node(5, "broker", str(tmp_path), 0, 0, first.config, 30)
        twin.config["listeners"] = twin.config["advertised.listeners"] = "PLAINTEXT://127.0.0.1:0"
        meta = (Path(first.data) / "meta.properties").read_text()
        identity = [each for each in meta.splitlines() if "directory.id" not in each]
        (tmp_path / "meta.properties").write_text("\n".join(identity))
        with pytest.raises(BrokerFailed, match="DUPLICATE_BROKER_REGISTRATION"):
            twin.start()
        assert "give each node an id of its own" in twin.log
        assert 5 in seen_by(first).brokers
        first.stop()


def test_a_node_of_another_cluster_is_refused_in_words(cluster: Cluster) -> None:
    with joining(cluster, 6, {}) as node:
        meta = Path(node.data) / "meta.properties"
        meta.write_text(meta.read_text().replace(cluster.id, "AAAAAAAAAAAAAAAAAAAAAA"))
        with pytest.raises(BrokerFailed, match="belongs to another cluster"):
            node.start()
        assert "directories and controllers of one cluster" in node.log


@contextmanager
def joining(cluster: Cluster, node_id: int, config: dict[str, str]) -> Iterator[Node]:
    """One more broker, gone from the cluster's books afterwards."""
    node = cluster.add(node_id, "broker", config)
    try:
        yield node
    finally:
        if node.running:
            node.kill()
        del cluster.nodes[node_id]


def test_controllers_and_brokers_may_be_processes_of_their_own() -> None:
    roles = ["controller", "broker", "broker"]
    with Cluster(nodes=3, roles=roles, config=HASTY, dynamic=True) as cluster:
        create(cluster.bootstrap_servers, "apart", partitions=4)
        for node in cluster.brokers:
            eventually(lambda n=node: len(leaders_of(n, "apart")) == 4, "all see it")  # type: ignore[misc]
            assert set(leaders_of(node, "apart")) == {2, 3}
            assert sorted(seen_by(node).brokers) == [2, 3]
        assert cluster.active_controller() == 1
        cluster.node(1).restart()
        create(cluster.bootstrap_servers, "after-its-restart")
        cluster.node(2).stop()
        cluster.node(3).stop()
        cluster.node(1).stop()

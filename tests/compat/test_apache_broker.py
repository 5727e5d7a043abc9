"""A broker of one make in a cluster whose metadata the other make leads.

It registers, copies the metadata log as it would from its own make's controller, leads and copies
partitions and coordinates groups beside the other one. Clients see one cluster.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.oracle.nodes import ApacheNode, Node, PenstockNode

pytestmark = pytest.mark.java

PARTITIONS = 8
RECORDS = 2000
SECONDS_MAX = 60
# What does not hear from the other for so long fences it; seconds make the tests quick.
CONFIG = {
    "broker.session.timeout.ms": "4000",
    "offsets.topic.num.partitions": "8",
    "offsets.topic.replication.factor": "2",
}


class Broker(Node):
    """A broker without a controller of its own."""

    def join(self, quorum: Node) -> None:
        """Take part in the cluster of this one."""
        found = re.search(r"^cluster.id=(.+)$", _meta(quorum), re.MULTILINE)
        assert found is not None
        self.cluster_id = found[1]
        self.config["controller.quorum.voters"] = f"1@127.0.0.1:{quorum.controller_port}"

    def properties(self) -> dict[str, str]:
        return {
            **super().properties(),
            "process.roles": "broker",
            "node.id": "2",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
        }


class ApacheBroker(Broker, ApacheNode):
    """Apache's."""


class PenstockBroker(Broker, PenstockNode):
    """Ours."""


def _meta(node: Node) -> str:
    return (node.data / "meta.properties").read_text()


@pytest.fixture(
    scope="module",
    params=[(PenstockNode, ApacheBroker), (ApacheNode, PenstockBroker)],
    ids=["apache under penstock", "penstock under apache"],
)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Node, Node]]:
    """Broker and controller of one make, and a broker of the other make that has joined it."""
    root = tmp_path_factory.mktemp("cluster")
    make, make_broker = request.param
    quorum: Node = make(root / "quorum", config=CONFIG)
    broker: Broker = make_broker(root / "broker", config=CONFIG)
    with quorum:
        broker.join(quorum)
        with broker:
            # As both see it: a client that is told of a broker by one of them and not by the other
            # drops what it has just asked that broker.
            both = (quorum, broker)
            _until(lambda: all(len(_brokers(each)) == 2 for each in both), "the broker joins")
            yield quorum, broker


def test_topics_are_spread_over_both_and_clients_see_one_cluster(
    cluster: tuple[Node, Node],
) -> None:
    for asked in cluster:
        topic = f"asked-{asked.port}"
        _create(asked, topic)
        leaders = Counter(_leaders(cluster[0], topic).values())
        assert leaders == {1: PARTITIONS // 2, 2: PARTITIONS // 2}
        _write(asked, topic)
        assert _read(asked, topic) == {b"%d" % number: 1 for number in range(RECORDS)}


def test_each_copies_what_the_other_leads(cluster: tuple[Node, Node]) -> None:
    _create(cluster[0], "two-of-each", replicas=2, config={"min.insync.replicas": "2"})
    assert set(_leaders(cluster[1], "two-of-each").values()) == {1, 2}
    _write(cluster[1], "two-of-each")  # acknowledged when both have it
    assert sum(_read(cluster[0], "two-of-each").values()) == RECORDS


def test_both_coordinate_groups(cluster: tuple[Node, Node]) -> None:
    _create(cluster[0], "grouped")
    _write(cluster[0], "grouped")
    coordinators = set()
    for number in range(20):
        group = f"group-{number}"
        described = AdminClient({"bootstrap.servers": cluster[1].bootstrap})
        found = described.describe_consumer_groups([group])[group].result(SECONDS_MAX)
        coordinators.add(found.coordinator.id)
    assert coordinators == {1, 2}
    assert sum(_read(cluster[1], "grouped", group="group-1").values()) == RECORDS


def test_when_the_controller_comes_back_the_broker_goes_on(
    cluster: tuple[Node, Node],
) -> None:
    quorum, broker = cluster
    _create(quorum, "lasting")
    quorum.kill()
    quorum.start()
    _until(lambda: len(_brokers(quorum)) == 2, "both are known again")
    _write(broker, "lasting")
    assert sum(_read(quorum, "lasting").values()) == RECORDS
    _create(broker, "created-after")
    assert set(_leaders(quorum, "created-after").values()) == {1, 2}


def test_a_broker_that_died_leads_nothing_until_it_is_back(cluster: tuple[Node, Node]) -> None:
    quorum, broker = cluster
    _create(quorum, "orphans")
    _create(quorum, "copied", replicas=2)
    _write(quorum, "copied")
    broker.kill()
    _until(lambda: 2 not in _leaders(quorum, "orphans").values(), "the dead one is fenced")
    assert Counter(_leaders(quorum, "orphans").values())[1] == PARTITIONS // 2
    assert Counter(_leaders(quorum, "copied").values())[1] == PARTITIONS, "its copies take over"
    _write(quorum, "copied")
    assert sum(_read(quorum, "copied", 2 * RECORDS).values()) == 2 * RECORDS
    broker.start()
    _until(
        lambda: Counter(_leaders(quorum, "orphans").values())[2] == PARTITIONS // 2,
        "it leads again",
    )
    _until(lambda: _copies(quorum, "copied") == 2 * PARTITIONS, "it has caught up")


# -- clients ------------------------------------------------------------------------------------


def _brokers(node: Node) -> set[int]:
    return set(AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=10).brokers)


def _leaders(node: Node, topic: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    found = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return {number: partition.leader for number, partition in found.items()}


def _copies(node: Node, topic: str) -> int:
    """How many replicas are in sync."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    found = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return sum(len(partition.isrs) for partition in found.values())


def _create(
    node: Node, topic: str, replicas: int = 1, config: dict[str, str] | None = None
) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    new = NewTopic(topic, PARTITIONS, replicas, config=config or {})
    admin.create_topics([new])[topic].result(SECONDS_MAX)
    _until(lambda: len(_leaders(node, topic)) == PARTITIONS, f"{topic} is known")


def _write(node: Node, topic: str) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(
            topic,
            b"%d" % number,
            key=b"%d" % number,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(SECONDS_MAX) == 0
    assert failures == []


def _read(
    node: Node, topic: str, count: int = RECORDS, group: str = "readers"
) -> Counter[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": f"{group}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: Counter[bytes | None] = Counter()
    deadline = time.monotonic() + SECONDS_MAX
    while sum(found.values()) < count and time.monotonic() < deadline:
        found.update(each.value() for each in consumer.consume(500, 1) if each.error() is None)
    consumer.close()
    return found


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"not in {SECONDS_MAX} s: {what}"
        time.sleep(0.2)

"""Classic groups with real clients: members come, go and are killed while records flow.

Whatever happens, every record is consumed, no committed offset is lost, and no partition has two
owners at once.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from penstock.coordination.keys import shard_of
from tests.compat.java.programs import wait_until
from tests.compat.rdkafka_crew import (
    SESSION_MS,
    SETTLE_SECONDS_MAX,
    Crew,
    Stream,
    come_and_go,
    create,
)
from tests.oracle.nodes import ApacheNode, Node, PenstockNode
from tests.oracle.tools import Tools


@pytest.fixture(scope="module")
def node(target: type[Node], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with target(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_shares_all_partitions_whoever_joins_leaves_or_is_killed(
    node: Node, topic: str, tmp_path: Path, strategy: str
) -> None:
    with Stream(node, topic) as stream, Crew(node, topic, tmp_path, strategy) as crew:
        come_and_go(crew, stream)


def test_a_static_member_comes_back_and_disturbs_nobody(
    node: Node, topic: str, tmp_path: Path
) -> None:
    with Stream(node, topic) as stream, Crew(node, topic, tmp_path, "range") as crew:
        long = {"session_timeout_ms": "45000"}
        for name in ("a", "b", "c"):
            crew.start(name, group_instance_id=name, **long)
        crew.settle("a", "b", "c")
        before, disturbed = crew.owners(), crew.disturbances("a", "b")
        crew.kill("c")
        crew.start("d", group_instance_id="c", **long)
        crew.settle("a", "b", "d")
        assert crew.owners() == {
            partition: "d" if owner == "c" else owner for partition, owner in before.items()
        }
        assert crew.disturbances("a", "b") == disturbed
        stream.end()
        crew.wait_for_all(stream)
        crew.check()


def test_members_stay_when_the_node_is_killed_and_comes_back(
    make_node: Callable[..., Node], topic: str, tmp_path: Path
) -> None:
    node = make_node()
    node.start()
    with Stream(node, topic) as stream, Crew(node, topic, tmp_path, "range") as crew:
        crew.start("a")
        crew.start("b")
        crew.settle("a", "b")
        crew.wait_for_progress(stream)
        node.kill()
        node.start()
        crew.wait_for_progress(stream)
        crew.settle("a", "b")
        stream.end()
        crew.wait_for_all(stream)
        crew.check()


async def test_aiokafka_members_share_partitions(node: Node, topic: str) -> None:
    create(node, topic, 4)
    fill(node, topic)
    members = [
        AIOKafkaConsumer(
            topic,
            bootstrap_servers=node.bootstrap,
            group_id=f"group-{topic}",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
        )
        for _ in range(2)
    ]
    async with asyncio.timeout(SETTLE_SECONDS_MAX):
        for member in members:
            await member.start()
        while sorted(len(it.assignment()) for it in members) != [2, 2]:
            await asyncio.sleep(0.05)
        values: set[bytes] = set()
        while len(values) < 100:
            for member in members:
                for batch in (await member.getmany(timeout_ms=200)).values():
                    values |= {it.value for it in batch}
            for member in members:
                await member.commit()
        await members[0].stop()
        while len(members[1].assignment()) != 4:
            await asyncio.sleep(0.05)
        await members[1].stop()
    assert committed(node, topic) == {0: 25, 1: 25, 2: 25, 3: 25}


class Poller:
    """A kafka-python member that polls in a thread of its own.

    A poll that ends in the middle of a rebalance loses that client's assignment: polls are long.
    """

    def __init__(self, node: Node, topic: str) -> None:
        self.values: set[bytes] = set()
        self.consumer = KafkaConsumer(
            topic,
            bootstrap_servers=node.bootstrap,
            group_id=f"group-{topic}",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
            session_timeout_ms=SESSION_MS,
            enable_auto_commit=False,
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            for batch in self.consumer.poll(2000).values():
                self.values.update(it.value for it in batch)
                self.consumer.commit()
        self.consumer.close()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def test_kafka_python_members_share_partitions(node: Node, topic: str) -> None:
    create(node, topic, 4)
    fill(node, topic)
    members = [Poller(node, topic), Poller(node, topic)]
    try:
        wait_until(
            lambda: sorted(len(it.consumer.assignment()) for it in members) == [2, 2],
            "both own two partitions",
            SETTLE_SECONDS_MAX,
        )
        wait_until(
            lambda: len(members[0].values | members[1].values) == 100,
            "all is consumed",
            SETTLE_SECONDS_MAX,
        )
        members.pop().end()
        wait_until(
            lambda: len(members[0].consumer.assignment()) == 4,
            "the one that is left owns all",
            SETTLE_SECONDS_MAX,
        )
    finally:
        for member in members:
            member.end()
    assert committed(node, topic) == {0: 25, 1: 25, 2: 25, 3: 25}


def fill(node: Node, topic: str) -> None:
    """A hundred records over four partitions."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(100):
        producer.produce(topic, str(number), partition=number % 4)
    assert producer.flush(30) == 0


def committed(node: Node, topic: str) -> dict[int, int]:
    settings = {"bootstrap.servers": node.bootstrap, "group.id": f"group-{topic}"}
    consumer = Consumer(settings)
    found = consumer.committed([TopicPartition(topic, at) for at in range(4)], timeout=30)
    consumer.close()
    return {it.partition: it.offset for it in found}


@pytest.mark.java
def test_apaches_consumers_join_a_classic_group(node: Node, topic: str, tools: Tools) -> None:
    create(node, topic, 4)
    fill(node, topic)
    out = tools.check(
        "VerifiableConsumer", "--bootstrap-server", node.bootstrap, "--topic", topic,
        "--group-id", f"group-{topic}", "--max-messages", "100", "--reset-policy", "earliest",
        "--group-protocol", "classic",
    )  # fmt: skip
    told = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    consumed = [it for it in told if it["name"] == "records_consumed"]
    assert sum(it["count"] for it in consumed) >= 100
    assert committed(node, topic) == {0: 25, 1: 25, 2: 25, 3: 25}
    out = tools.check(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", node.bootstrap,
        "--topic", topic, "--group", f"console-{topic}", "--from-beginning",
        "--max-messages", "100", "--command-property", "group.protocol=classic",
    )  # fmt: skip
    assert {int(it) for it in out.split()} == set(range(100))


@pytest.mark.java
@pytest.mark.penstock_only
@pytest.mark.parametrize("first", [ApacheNode, PenstockNode])
def test_a_group_goes_with_its_directory(first: type[Node], topic: str, tmp_path: Path) -> None:
    second = PenstockNode if first is ApacheNode else ApacheNode
    nodes = [it(tmp_path / it.name, data=tmp_path / "data") for it in (first, second)]
    settings = {
        "group.id": f"group-{topic}",
        "group.instance.id": "one",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": "60000",
        "enable.auto.commit": "false",
    }
    seen: list[list[int]] = []
    for turn, node in enumerate(nodes):
        with node:
            if turn == 0:
                create(node, topic, 4)
            fill(node, topic)
            consumer = Consumer({**settings, "bootstrap.servers": node.bootstrap})
            consumer.subscribe([topic])
            values: list[int] = []
            deadline = time.monotonic() + SETTLE_SECONDS_MAX
            while len(values) < 100:
                assert time.monotonic() < deadline, len(values)
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    values.append(int(message.value() or b""))
            consumer.commit(asynchronous=False)
            seen.append(sorted(values))
            consumer.close()  # a static member stays
            admin = AdminClient({"bootstrap.servers": node.bootstrap})
            [described] = admin.describe_consumer_groups([f"group-{topic}"]).values()
            state = described.result(30)
            assert state.state.name == "STABLE"
            assert [it.group_instance_id for it in state.members] == ["one"]
            node.stop()
    assert seen == [list(range(100))] * 2, "each record once: the offsets went along"


@pytest.mark.java
def test_apaches_dump_decodes_the_records_of_a_group(
    make_node: Callable[..., Node], topic: str, tmp_path: Path, tools: Tools
) -> None:
    node = make_node()
    node.start()
    with Stream(node, topic) as stream, Crew(node, topic, tmp_path, "range") as crew:
        crew.start("a")
        crew.settle("a")
        stream.end()
        crew.wait_for_all(stream)
        crew.stop("a")
    node.stop()
    index = shard_of(f"group-{topic}", 50)
    log = node.data / f"__consumer_offsets-{index}" / "00000000000000000000.log"
    out = tools.check("DumpLogSegments", "--offsets-decoder", "--files", str(log))
    told = [
        json.loads(line.partition("payload: ")[2])
        for line in out.splitlines()
        if f'"group":"group-{topic}"' in line and '"members"' in line
    ]
    assert [len(it["data"]["members"]) for it in told] == [0, 1, 0]
    assert [it["data"]["generation"] for it in told] == [0, 1, 2]
    assert {it["version"] for it in told} == {"3"}
    member = told[1]["data"]["members"][0]
    assert member["clientHost"] == "/127.0.0.1"
    assert told[1]["data"]["leader"] == member["memberId"]

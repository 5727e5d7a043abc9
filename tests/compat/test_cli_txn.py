"""`penstock txn`, against a real broker and with real producers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from penstock.cli.wire import Wire
from penstock.cli.wire_security import Security
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.oracle.nodes import Node
from tests.oracle.wire import batch
from tests.unit.cli.runner import Penstock

SECONDS_MAX = 30
TRANSACTIONAL = 0x10
PRODUCE_VERSION_MAX = 11
"""The last in which a producer must add its partitions itself: one that does not can hang."""


@pytest.fixture
def penstock(broker: Node, tmp_path: Path) -> Penstock:
    return Penstock(tmp_path, broker.bootstrap)


@pytest.fixture
def orders(penstock: Penstock, topic: str) -> str:
    penstock.out("topic", "create", topic, "-p", "2")
    return topic


@pytest.fixture
def begun(broker: Node, orders: str) -> Iterator[Callable[[str], Producer]]:
    """Makes a producer with a transaction that it has begun, and written to in both partitions."""
    made: list[Producer] = []

    def begin(name: str) -> Producer:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
        made.append(producer)
        producer.init_transactions(SECONDS_MAX)
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(orders, b"x", partition=partition)
        assert producer.flush(SECONDS_MAX) == 0
        return producer

    yield begin
    while made:  # and nobody keeps them: a producer that lives calls for its broker for ever
        made.pop().purge()


def describe(penstock: Penstock, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(penstock.out("txn", "describe", name, "-o", "json"))
    return found


def wait_for(penstock: Penstock, name: str, state: str) -> dict[str, Any]:
    """The description once the markers are written, which may be after the client was answered."""
    deadline = time.monotonic() + SECONDS_MAX
    while (found := describe(penstock, name))["state"] != state:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def test_a_transaction_is_described_from_its_beginning_to_its_end(
    penstock: Penstock, broker: Node, orders: str, begun: Callable[[str], Producer]
) -> None:
    producer = begun(orders)
    found = describe(penstock, orders)
    assert (found["id"], found["state"], found["timeout_ms"]) == (orders, "ongoing", 60_000)
    assert found["coordinator"] == {"id": 1, "host": "127.0.0.1", "port": broker.port}
    assert found["partitions"] == {orders: [0, 1]}
    assert 0 <= found["open_seconds"] < 60
    assert f"{orders}:0,1" in penstock.out("txn", "describe", orders)
    producer.commit_transaction(SECONDS_MAX)
    ended = wait_for(penstock, orders, "complete-commit")
    assert ended["partitions"] == {}
    assert ended["open_seconds"] is None


def test_transactions_are_listed_by_state_producer_and_age(
    penstock: Penstock, orders: str, begun: Callable[[str], Producer]
) -> None:
    begun(f"{orders}-a").abort_transaction(SECONDS_MAX)
    begun(f"{orders}-b")
    wait_for(penstock, f"{orders}-a", "complete-abort")
    pattern = f"{orders}-*"

    def listed(*words: str) -> list[str]:
        return penstock.out("txn", "list", pattern, "-q", *words).splitlines()

    assert listed() == [f"{orders}-a", f"{orders}-b"]
    assert listed("-s", "ongoing") == [f"{orders}-b"]
    assert listed("-s", "complete-abort", "-s", "ongoing") == [f"{orders}-a", f"{orders}-b"]
    producer = str(describe(penstock, f"{orders}-a")["producer"])
    assert listed("--producer", producer) == [f"{orders}-a"]
    assert listed("--longer-than", "1h") == []
    time.sleep(0.2)
    assert listed("--longer-than", "100ms") == [f"{orders}-b"]
    lines = penstock.out("txn", "list", pattern).splitlines()
    assert lines[0].split() == [
        "ID", "STATE", "PRODUCER", "EPOCH", "COORDINATOR", "OPEN", "FOR", "PARTITIONS",
    ]  # fmt: skip
    assert lines[1].split()[:3] == [f"{orders}-a", "complete-abort", producer]
    assert lines[2].split()[-1] == "2"


def test_an_id_that_is_not_there_is_told_of(penstock: Penstock, topic: str) -> None:
    for words in (("describe", topic), ("abort", "--id", topic)):
        ran = penstock("txn", *words)
        assert ran.returncode == 1
        assert "TRANSACTIONAL_ID_NOT_FOUND" in ran.stderr
        assert "penstock txn list" in ran.stderr
    assert penstock.out("txn", "list", topic, "-q") == ""


def test_a_stuck_id_is_fenced_and_its_transaction_aborted(
    penstock: Penstock, orders: str, begun: Callable[[str], Producer]
) -> None:
    producer = begun(orders)
    checked = penstock("txn", "abort", "--id", orders, "--dry-run")
    assert (checked.returncode, "could be fenced" in checked.stderr) == (0, True)
    assert describe(penstock, orders)["state"] == "ongoing"
    ended = penstock("txn", "abort", "--id", orders)
    assert ended.returncode == 0
    assert f"fenced transactional id {orders}" in ended.stderr
    assert describe(penstock, orders)["partitions"] == {}
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(SECONDS_MAX)
    assert fenced.value.args[0].fatal()


def test_a_transaction_that_its_coordinator_knows_does_not_hang(
    penstock: Penstock, orders: str, begun: Callable[[str], Producer]
) -> None:
    begun(orders)
    assert (
        json.loads(penstock.out("txn", "hanging", "-t", orders, "--older-than", "0s", "-o", "json"))
        == []
    )


def test_there_is_nothing_to_abort_where_nothing_is_open(penstock: Penstock, orders: str) -> None:
    ran = penstock("txn", "abort", "-t", orders, "-p", "0", "--start-offset", "3")
    assert ran.returncode == 1
    assert f"{orders}-0 has no open transaction that begins at offset 3" in ran.stderr
    ran = penstock("txn", "abort", "-t", orders, "-p", "1", "--producer", "77")
    assert f"{orders}-1 has no open transaction of producer 77" in ran.stderr


def leave_hanging(node: Node, topic: str, producer: int) -> None:
    """Write as part of a transaction of which no coordinator has heard."""
    records = batch([b"lost"], codec=TRANSACTIONAL, producer=(producer, 0, 0))
    request = ProduceRequest(
        transactional_id="nobody",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=0, records=records)]
            )
        ],
    )
    wire = Wire("127.0.0.1", node.port, Security(), SECONDS_MAX)
    told = wire.ask(request, ProduceResponse, PRODUCE_VERSION_MAX)
    wire.close()
    assert told.responses[0].partition_responses[0].error_code == 0


def test_a_hanging_transaction_is_found_and_ended(
    make_node: Callable[..., Node], tmp_path: Path
) -> None:
    node = make_node(config={"transaction.partition.verification.enable": "false"})
    node.start()
    penstock = Penstock(tmp_path, node.bootstrap)
    penstock.out("topic", "create", "orders")
    for producer in (4001, 4002):
        leave_hanging(node, "orders", producer)
    assert json.loads(penstock.out("txn", "hanging", "-o", "json")) == []
    found = json.loads(penstock.out("txn", "hanging", "--older-than", "0s", "-o", "json"))
    assert [(one["topic"], one["partition"], one["start"], one["producer"]) for one in found] == [
        ("orders", 0, 0, 4001),
        ("orders", 0, 1, 4002),
    ]
    place = ("-t", "orders", "-p", "0")
    checked = penstock("txn", "abort", *place, "--start-offset", "0", "--dry-run")
    assert (checked.returncode, "could be aborted" in checked.stderr) == (0, True)
    ended = penstock("txn", "abort", *place, "--start-offset", "0")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == "the transaction of producer 4001 from orders-0:0 was aborted\n"
    left = penstock.out("txn", "hanging", "-t", "orders", "--older-than", "0s").splitlines()
    assert [line.split()[:4] for line in left[1:]] == [["orders", "0", "1", "4002"]]
    assert penstock("txn", "abort", *place, "--producer", "4002").returncode == 0
    assert len(penstock.out("txn", "hanging", "--older-than", "0s").splitlines()) == 1

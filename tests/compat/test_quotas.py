"""Clients held to their quotas: real ones, that know nothing of it but that they have to wait."""

from __future__ import annotations

import statistics
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.oracle.nodes import Node
from tests.oracle.tools import Tools
from tests.oracle.wire import Wire, array, string

VALUE = bytes(10_000)
SAMPLES = 2
"""Seconds over which rates are measured, as few as can be: one of them may pass at once in the
beginning, and then again whenever a sample is forgotten."""

START_SECONDS_MAX = 60.0
CYCLE_SECONDS = 2
MEASURED_SECONDS = 2 * CYCLE_SECONDS
TOLERANCE = 0.15
SLACK = 0.3
"""How much less it may be: a busy machine holds clients up, quotas or not."""
RATE = 500_000


@pytest.fixture(scope="module")
def node(target: type[Node], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    config = {"quota.window.num": str(SAMPLES)}
    with target(tmp_path_factory.mktemp("quotas"), config=config) as running:
        yield running


@pytest.fixture
def grant(node: Node) -> Callable[..., None]:
    """Give a client id a quota."""

    def by_the_wire(client: str, **quotas: float) -> None:
        with Wire(node.port) as wire:
            answer = wire.call(49, 0, granting(client, quotas))
            assert (answer.int32(), answer.int32(), answer.int16()) == (0, 1, 0)

    return by_the_wire


def granting(client: str, quotas: dict[str, float]) -> bytes:
    """AlterClientQuotas, version 0: Python clients cannot ask for it."""
    entity = array([string("client-id") + string(client)])
    operations = array(
        [string(key) + struct.pack(">db", value, 0) for key, value in quotas.items()]
    )
    return array([entity + operations]) + b"\0"


def rate_of(moved: Callable[[], int]) -> float:
    """Bytes a second, once what may be used at once was used; `moved` moves some more.

    They come in jerks: so it is the median over all the places where measuring could begin.
    """
    asked = time.monotonic()
    while moved() == 0:
        assert time.monotonic() - asked < START_SECONDS_MAX, "nothing moves at all"
    began = time.monotonic()
    progress: list[tuple[float, int]] = []
    while (now := time.monotonic() - began) < CYCLE_SECONDS / 2 + CYCLE_SECONDS + MEASURED_SECONDS:
        progress.append((now, moved()))
    begins = [CYCLE_SECONDS / 2 + CYCLE_SECONDS * part / 40 for part in range(40)]
    return statistics.median(
        sum(size for when, size in progress if begin <= when < begin + MEASURED_SECONDS)
        / MEASURED_SECONDS
        for begin in begins
    )


def keeps_to(found: float, rate: float) -> bool:
    print(f"{found:.0f} bytes/s, of {rate:.0f}")
    return rate * (1 - SLACK) <= found <= rate * (1 + TOLERANCE)


class Writer:
    """A producer that writes as fast as it is let, and counts what was acknowledged."""

    def __init__(self, node: Node, client_id: str, topic: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": node.bootstrap,
                "client.id": client_id,
                "linger.ms": 5,
                "batch.size": 20_000,
                "queue.buffering.max.kbytes": 1000,
            }
        )
        self._topic = topic
        self._acknowledged = 0

    def move(self) -> int:
        """Write for a moment; the bytes that were acknowledged meanwhile."""
        before = self._acknowledged
        try:
            self._producer.produce(self._topic, VALUE, on_delivery=self._delivered)
            self._producer.poll(0)
        except BufferError:
            self._producer.poll(0.05)
        return self._acknowledged - before

    def close(self) -> None:
        """Leave what was not written yet unwritten."""
        self._producer.purge()
        self._producer.flush(10)

    def _delivered(self, error: object, message: object) -> None:
        if error is None:  # else it was given up
            self._acknowledged += len(VALUE)


class Reader:
    """A consumer that reads as fast as it is let."""

    def __init__(self, node: Node, client_id: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": node.bootstrap,
                "client.id": client_id,
                "group.id": "unused",
                "fetch.max.bytes": 100_000,
                "message.max.bytes": 100_000,
                "fetch.message.max.bytes": 100_000,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def move(self) -> int:
        """Read one record, if there is one; its bytes."""
        message = self._consumer.poll(0.05)
        if message is None:
            return 0
        assert message.error() is None
        return len(message.value() or b"")

    def close(self) -> None:
        self._consumer.close()


def test_writers_and_a_reader_keep_to_the_rates_that_each_is_given(
    node: Node, grant: Callable[..., None], topic: str
) -> None:
    create(node, topic)
    create(node, f"{topic}-filled")
    fill(node, f"{topic}-filled", 4 * RATE * MEASURED_SECONDS)
    grant("slow-writer", producer_byte_rate=RATE)
    grant("fast-writer", producer_byte_rate=2 * RATE)
    grant("reader", consumer_byte_rate=RATE)
    clients: list[Writer | Reader] = [
        Writer(node, "slow-writer", topic),
        Writer(node, "fast-writer", topic),
        Reader(node, "reader", f"{topic}-filled"),
    ]
    with ThreadPoolExecutor() as pool:
        slow, fast, read = pool.map(lambda client: rate_of(client.move), clients)
    for client in clients:
        client.close()
    assert keeps_to(slow, RATE)
    assert keeps_to(fast, 2 * RATE)
    assert keeps_to(read, RATE)


@pytest.mark.java
def test_quotas_that_apaches_tool_sets_count_and_go_again(
    node: Node, tools: Tools, topic: str
) -> None:
    create(node, topic)

    def configure(*words: str) -> str:
        who = ("--entity-type", "clients", "--entity-name", "tooled")
        return tools.check(
            "kafka.admin.ConfigCommand", "--bootstrap-server", node.bootstrap, *who, *words
        )

    configure("--alter", "--add-config", f"producer_byte_rate={RATE}")
    assert f"producer_byte_rate={RATE}" in configure("--describe")
    writer = Writer(node, "tooled", topic)
    assert written_in(3, writer) < 5 * RATE  # one second's worth at once, and one each second
    configure("--alter", "--delete-config", "producer_byte_rate")
    deadline = time.monotonic() + 20
    while written_in(1, writer) <= 3 * RATE:  # it may have to wait for the last time
        assert time.monotonic() < deadline
    writer.close()


def written_in(seconds: float, writer: Writer) -> int:
    began, total = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        total += writer.move()
    return total


def create(node: Node, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)


def fill(node: Node, topic: str, size: int) -> None:
    """Write small batches: of one that an answer cuts in two, its reader gets nothing."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "batch.size": 4000})
    for _ in range(size // 1000):
        producer.produce(topic, bytes(1000))
    assert producer.flush(30) == 0

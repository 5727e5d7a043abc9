"""Kafka Streams with `group.protocol=streams`: the coordinator assigns its tasks.

Applications run as they are, one instance takes over from another, and Apache's own command shows
and ends their groups.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.java.programs import Program, wait_until
from tests.oracle.nodes import Node
from tests.oracle.tools import Tools

pytestmark = pytest.mark.java

APPLICATION = "application"
PARTITIONS = 2
VOCABULARY = tuple(f"word-{number}" for number in range(12))
COMMAND = "org.apache.kafka.tools.streams.StreamsGroupCommand"
SECONDS_MAX = 90

# Groups that are in less of a hurry take longer to watch.
CONFIG = {
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "4000",
    "group.streams.initial.rebalance.delay.ms": "500",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.num.standby.replicas": "1",
}


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Iterator[Node]:
    node = make_node(config=CONFIG)
    node.start()
    yield node


def create(node: Node, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        made.result(30)


def run(node: Node, folder: Path, name: str, source: str, *topics: str) -> Program:
    """An instance of the application, with a state directory of its own."""
    return Program(
        source, *topics,
        f"application.id={APPLICATION}", f"bootstrap.servers={node.bootstrap}",
        f"state.dir={folder / name}", "group.protocol=streams",
        "processing.guarantee=exactly_once_v2", "commit.interval.ms=100",
        # Every change of a result is written, so that one too many or too few would show.
        "statestore.cache.max.bytes=0", "consumer.auto.offset.reset=earliest",
        output=folder / f"{name}.log",
    )  # fmt: skip


def read(node: Node, topic: str) -> dict[str, list[str]]:
    """All that was committed under each key, up to the last stable offset."""
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "reader", "enable.auto.commit": False,
         "isolation.level": "read_committed", "enable.partition.eof": True}
    )  # fmt: skip
    found: dict[str, list[str]] = defaultdict(list)
    consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
    unread = set(range(PARTITIONS))
    while unread:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, f"no end of partitions {unread} in {SECONDS_MAX} s"
        error = message.error()
        if error is None:
            key, value = message.key(), message.value()
            assert key is not None and value is not None
            found[key.decode()].append(value.decode())
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            unread.discard(message.partition())
    consumer.close()
    return dict(found)


def wait_for(node: Node, topic: str, count: int, program: Program) -> None:
    """Wait until so many results were committed."""

    def done() -> bool:
        return sum(map(len, read(node, topic).values())) >= count

    wait_until(done, f"{count} results are committed", SECONDS_MAX, program.complaints)


class Words:
    """Lines that are sent, and what should come of them."""

    def __init__(self, node: Node) -> None:
        self._producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "all"})
        self._chance = random.Random(71)
        self.sent: Counter[str] = Counter()

    def send(self, lines: int) -> None:
        for _ in range(lines):
            words = self._chance.choices(VOCABULARY, k=3)
            self._producer.produce("lines", " ".join(words), key=words[0])
            self.sent.update(words)
        assert self._producer.flush(60) == 0

    def expected(self) -> dict[str, list[str]]:
        """Each word's count passes through every number from one on, once."""
        return {word: [str(it + 1) for it in range(count)] for word, count in self.sent.items()}


class Groups:
    """StreamsGroupCommand, pointed at the broker under test."""

    def __init__(self, tools: Tools, node: Node) -> None:
        self._tools, self._node = tools, node

    def run(self, *arguments: str) -> str:
        return self._tools.check(
            COMMAND, "--bootstrap-server", self._node.bootstrap, *arguments, seconds_max=90
        )

    def describe(self, *arguments: str) -> list[list[str]]:
        """The cells of a description, without its headings."""
        out = self.run("--describe", "--group", APPLICATION, *arguments)
        return [line.split() for line in out.splitlines() if line.startswith(APPLICATION)]


def test_tasks_move_when_an_instance_is_killed_and_every_word_is_counted_once(
    node: Node, tools: Tools, tmp_path: Path
) -> None:
    create(node, "lines", "counts")
    words, groups = Words(node), Groups(tools, node)
    words.send(100)
    topics = ("WordCount.java", "lines", "counts")
    with run(node, tmp_path, "one", *topics) as one, run(node, tmp_path, "two", *topics) as two:
        wait_for(node, "counts", words.sent.total(), one)
        wait_until(
            lambda: groups.describe("--state")[0][-2:] == ["Stable", "2"],
            "both instances have their tasks", SECONDS_MAX, two.complaints,
        )  # fmt: skip
        assert groups.run("--list").split() == [APPLICATION]
        members = [" ".join(row[4:]) for row in groups.describe("--members")]
        assert sorted(members) == [
            "ACTIVE: 0:[0]; 1:[0]; STANDBY: 1:[1];",
            "ACTIVE: 0:[1]; 1:[1]; STANDBY: 1:[0];",
        ]
        lag = groups.describe()
        assert {(row[1], row[2]) for row in lag} >= {("lines", "0"), ("lines", "1")}
        two.kill()
        words.send(100)
        wait_for(node, "counts", words.sent.total(), one)
        one.end()
    assert read(node, "counts") == words.expected()

    reset = ("--reset-offsets", "--group", APPLICATION, "--input-topic", "lines", "--to-earliest")
    assert "lines" in groups.run(*reset, "--execute")
    assert "successful" in groups.run("--delete", "--group", APPLICATION)
    assert groups.run("--list").split() == []


def test_what_happens_within_ten_seconds_of_each_other_is_joined(
    node: Node, tmp_path: Path
) -> None:
    create(node, "left", "right", "joined")
    # What is joined must be partitioned alike, so as Java does it.
    producer = Producer(
        {"bootstrap.servers": node.bootstrap, "acks": "all", "partitioner": "murmur2_random"}
    )
    start = int(time.time() * 1000) - 60_000
    for number in range(40):
        key = f"key-{number % 4}"
        at = start + number * 1_000
        producer.produce("left", f"{key}:{number}", key="any", timestamp=at)
        producer.produce("right", f"{number}", key=key, timestamp=at + 500)
    assert producer.flush(60) == 0
    expected: dict[str, set[str]] = defaultdict(set)
    for one in range(40):
        for other in range(40):
            if one % 4 == other % 4 and abs(other * 1_000 + 500 - one * 1_000) <= 10_000:
                expected[f"key-{one % 4}"].add(f"key-{one % 4}:{one}+{other}")
    count = sum(map(len, expected.values()))
    with run(node, tmp_path, "one", "WindowedJoin.java", "left", "right", "joined") as program:
        wait_for(node, "joined", count, program)
        program.end()
    joined = read(node, "joined")
    assert {key: set(values) for key, values in joined.items()} == expected
    assert sum(map(len, joined.values())) == count

"""Kafka Streams counts words exactly once, whoever is killed meanwhile."""

from __future__ import annotations

import random
import shutil
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

APPLICATION = "word-count"
PARTITIONS = 2
VOCABULARY = tuple(f"word-{number}" for number in range(20))
SECONDS_MAX = 90


class Counting:
    """The application, its two topics, and what should come out of it."""

    def __init__(self, node: Node, folder: Path) -> None:
        self.node = node
        self.state = folder / "state"
        self._errors = folder / "streams.log"
        self._chance = random.Random(4)
        self.sent: Counter[str] = Counter()
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        topics = [NewTopic(name, PARTITIONS, 1) for name in ("lines", "counts")]
        for made in admin.create_topics(topics).values():
            made.result(30)
        self._producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "all"})

    def send(self, lines: int) -> None:
        """Write lines of a few words, and have them acknowledged."""
        for _ in range(lines):
            words = self._chance.choices(VOCABULARY, k=3)
            self._producer.produce("lines", " ".join(words), key=words[0])
            self.sent.update(words)
        assert self._producer.flush(60) == 0

    def run(self) -> Program:
        return Program(
            "WordCount.java", "lines", "counts",
            f"application.id={APPLICATION}", f"bootstrap.servers={self.node.bootstrap}",
            f"state.dir={self.state}",
            "processing.guarantee=exactly_once_v2", "group.protocol=classic",
            "commit.interval.ms=100",
            # Every change of a count is written, so that one counted twice or never would show.
            "statestore.cache.max.bytes=0",
            "consumer.auto.offset.reset=earliest",
            # A killed application is missed sooner than in 45 s.
            "consumer.session.timeout.ms=6000", "consumer.heartbeat.interval.ms=500",
            output=self._errors,
        )  # fmt: skip

    def counted(self) -> dict[str, list[int]]:
        """All that was committed for each word, in the order in which it was written."""
        return read_counts(self.node)

    def wait_for(self, count: int, program: Program) -> None:
        """Wait until so many counts were committed."""

        def done() -> bool:
            return sum(map(len, self.counted().values())) >= count

        wait_until(done, f"{count} counts are committed", SECONDS_MAX, program.complaints)

    def expected(self) -> dict[str, list[int]]:
        """Each word's count passes through every number from one on, once."""
        return {word: list(range(1, count + 1)) for word, count in self.sent.items()}


def read_counts(node: Node) -> dict[str, list[int]]:
    """What a consumer of committed records reads now, up to the last stable offset."""
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "reader", "enable.auto.commit": False,
         "isolation.level": "read_committed", "enable.partition.eof": True}
    )  # fmt: skip
    found: dict[str, list[int]] = defaultdict(list)
    consumer.assign([TopicPartition("counts", each, 0) for each in range(PARTITIONS)])
    unread = set(range(PARTITIONS))
    while unread:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, f"no end of partitions {unread} in {SECONDS_MAX} s"
        error = message.error()
        if error is None:
            word, count = message.key(), message.value()
            assert word is not None and count is not None
            found[word.decode()].append(int(count))
        elif error.code() == KafkaError._PARTITION_EOF:
            unread.discard(message.partition())
        else:
            # A broker that was killed is on its way back.
            assert error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT), error
    consumer.close()
    return dict(found)


@pytest.fixture
def counting(make_node: Callable[..., Node], tmp_path: Path) -> Iterator[Counting]:
    node = make_node()
    node.start()
    yield Counting(node, tmp_path)


def test_every_word_is_counted_exactly_once_though_application_and_node_are_killed(
    counting: Counting,
) -> None:
    with counting.run() as program:
        counting.send(200)
        counting.wait_for(1, program)
        counting.send(200)
    # Killed by now, perhaps amid a transaction: the next one finds it and starts over.
    counting.send(100)
    with counting.run() as program:
        counting.wait_for(900, program)
        counting.send(200)
        counting.node.kill()
        counting.node.start()
        counting.send(100)
        counting.wait_for(counting.sent.total(), program)
        program.end()
    assert counting.counted() == counting.expected()


def test_the_streams_resetter_takes_an_application_back_to_its_beginning(
    counting: Counting, tools: Tools
) -> None:
    counting.send(50)
    with counting.run() as program:
        counting.wait_for(counting.sent.total(), program)
        program.end()
    out = tools.check(
        "StreamsResetter", "--bootstrap-server", counting.node.bootstrap,
        "--application-id", APPLICATION, "--input-topics", "lines", "--force",
    )  # fmt: skip
    assert "Reset-offsets for input topics [lines]" in out
    assert f"Deleting inferred internal topics [{APPLICATION}-KSTREAM-AGGREGATE" in out
    shutil.rmtree(counting.state)

    with counting.run() as program:
        counting.wait_for(2 * counting.sent.total(), program)
        program.end()
    assert counting.counted() == {word: counts * 2 for word, counts in counting.expected().items()}

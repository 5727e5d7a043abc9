"""A node, and what tests of penstock.patterns ask of it and of the workers they run."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka import Message as Record
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from penstock.patterns import Worker
from tests.oracle.nodes import REPOSITORY, Node

KEYS = 20
SECONDS_MAX = 60.0


class Server:
    """A node, and what tests ask of it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": node.bootstrap,
            "log_level": 0,
        }
        self.admin = AdminClient(self.settings)

    def client(self, group: str) -> dict[str, object]:
        return {**self.settings, "group.id": group}

    def create(self, topic: str, partitions: int = 3, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(topic, partitions, config=settings)])[topic].result(30)

    def set(self, topic: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([change])[change].result(30)

    def fill(self, topic: str, count: int) -> None:
        producer = Producer({**self.settings, "enable.idempotence": True})
        for number in range(count):
            producer.produce(topic, b"%d" % number, key=b"k%d" % (number % KEYS))
        assert producer.flush(30) == 0

    def send(self, topic: str, value: bytes, key: bytes, **extra: object) -> None:
        producer = Producer(self.settings)
        producer.produce(topic, value, key=key, **extra)  # type: ignore[arg-type]
        assert producer.flush(30) == 0

    def ends(self, topic: str) -> dict[int, int]:
        with Consumer(self.client("ends")) as consumer:
            found = consumer.list_topics(topic, timeout=10).topics[topic].partitions
            places = [TopicPartition(topic, number) for number in found]
            return {it.partition: consumer.get_watermark_offsets(it, 10)[1] for it in places}

    def committed(self, topic: str, group: str) -> dict[int, tuple[int, str]]:
        with Consumer(self.client(group)) as consumer:
            places = [TopicPartition(topic, number) for number in self.ends(topic)]
            found = consumer.committed(places, timeout=10)
        return {it.partition: (it.offset, it.metadata or "") for it in found if it.offset >= 0}

    def is_committed(self, topic: str, group: str) -> bool:
        """To the very end, though perhaps by somebody who still works on it."""
        reached = {part: at for part, (at, _) in self.committed(topic, group).items()}
        return reached == {part: end for part, end in self.ends(topic).items() if end}

    def assert_all_committed(self, topic: str, group: str) -> None:
        """To the very end, and given back in order."""
        ends = {part: (end, "") for part, end in self.ends(topic).items() if end}
        assert self.committed(topic, group) == ends

    def read(self, topic: str, count: int) -> list[Record]:
        with Consumer({**self.client("reader"), "enable.auto.commit": False}) as consumer:
            consumer.assign([TopicPartition(topic, number, 0) for number in self.ends(topic)])
            found: list[Record] = []
            deadline = time.monotonic() + SECONDS_MAX
            while len(found) < count and time.monotonic() < deadline:
                found += [it for it in consumer.consume(count, 0.2) if it.error() is None]
            return found


def run_until(worker: Worker, enough: Callable[[], bool]) -> None:
    """Run it in this thread, until there is enough."""
    late = threading.Event()

    def watch() -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not enough():
            if time.monotonic() > deadline:
                late.set()
                break
            time.sleep(0.01)
        worker.stop()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    worker.run()
    watcher.join(SECONDS_MAX)
    assert not late.is_set(), f"still {worker.counts} after {SECONDS_MAX} s"


def wait_until(enough: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not enough():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def header(record: Record, name: str) -> bytes:
    return dict(record.headers() or ())[name]  # type: ignore[return-value]


class Lives:
    """A worker's process, started again whenever it ends by itself or by us."""

    def __init__(self, *words: str) -> None:
        self._command = [sys.executable, "-m", "tests.system.pattern_worker", *words]
        self.count = 0
        self.start()

    def start(self) -> None:
        self.count += 1
        self.process = subprocess.Popen(self._command, cwd=REPOSITORY)

    def keep(self) -> None:
        if self.process.poll() is not None:
            self.start()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.start()

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(SECONDS_MAX) == 0


def assert_in_order(handled: list[tuple[bytes | None, int]]) -> None:
    """No message was handled before an earlier one of its key had been; keys keep to a partition.

    After a crash a key may be handled again from an earlier message on, in order from there.
    """
    by_key: dict[bytes | None, list[int]] = defaultdict(list)
    for key, offset in handled:
        by_key[key].append(offset)
    for offsets in by_key.values():
        expected = sorted(set(offsets))
        rank = {offset: number for number, offset in enumerate(expected)}
        reached = -1
        for offset, following in zip(offsets, [*offsets[1:], None], strict=True):
            assert rank[offset] <= reached + 1, "a message overtook an earlier one of its key"
            reached = max(reached, rank[offset])
            if following is not None:
                assert rank[following] <= rank[offset] + 1, "a message was left out"

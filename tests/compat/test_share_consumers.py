"""Share consumers of Apache and of librdkafka, as operators and programs use them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.compat.java.programs import wait_until
from tests.oracle import apache
from tests.oracle.nodes import Node
from tests.oracle.tools import Tools

pytestmark = pytest.mark.java

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer"
PERFORMANCE = "org.apache.kafka.tools.ShareConsumerPerformance"
SECONDS_MAX = 60
LOCK_MS = 30_000
"""Longer than anybody here should wait for what another held."""

KEEPER = Path(__file__).with_name("share_keeper.py")


class Shared:
    """A topic, and a share group that begins at its beginning."""

    def __init__(self, node: Node, topic: str, partitions: int) -> None:
        self.node = node
        self.topic = topic
        self.group = f"g-{uuid.uuid4().hex[:12]}"
        self.where = ("--bootstrap-server", node.bootstrap, "--topic", topic)
        self._admin = AdminClient({"bootstrap.servers": node.bootstrap})
        for made in self._admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            made.result(30)
        self.configure("share.auto.offset.reset", "earliest")

    def configure(self, name: str, value: str) -> None:
        """Set a key of the group."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, self.group, incremental_configs=[entry])
        for done in self._admin.incremental_alter_configs([resource]).values():
            done.result(30)

    def send(self, values: range, **options: Any) -> None:
        """Write numbers, and have them acknowledged."""
        producer = Producer({"bootstrap.servers": self.node.bootstrap, "acks": "all", **options})
        for value in values:
            producer.produce(self.topic, str(value))
        assert producer.flush(60) == 0


@pytest.fixture
def shared(broker: Node, topic: str) -> Shared:
    return Shared(broker, topic, 2)


def console(tools: Tools, shared: Shared, *options: str) -> list[int]:
    out = tools.check(CONSOLE, *shared.where, "--group", shared.group, *options)
    return [int(line) for line in out.splitlines()]


def test_console_share_consumers_divide_what_there_is(tools: Tools, shared: Shared) -> None:
    shared.send(range(20), **{"batch.num.messages": 5})
    first = console(tools, shared, "--max-messages", "7", "--timeout-ms", "20000")
    assert len(first) == 7
    # What the first one accepted is done with; what else it had got is for the second.
    second = console(tools, shared, "--max-messages", "13", "--timeout-ms", "20000")
    assert sorted(first + second) == list(range(20))


def test_a_record_that_is_released_comes_again_and_one_that_is_rejected_does_not(
    tools: Tools, shared: Shared
) -> None:
    shared.send(range(4))
    released = console(tools, shared, "--release", "--max-messages", "4", "--timeout-ms", "20000")
    rejected = console(tools, shared, "--reject", "--max-messages", "4", "--timeout-ms", "20000")
    assert sorted(released) == sorted(rejected) == list(range(4))
    assert console(tools, shared, "--timeout-ms", "3000") == []


def test_only_what_was_committed_is_delivered_where_the_group_wants_it(
    tools: Tools, shared: Shared
) -> None:
    shared.configure("share.isolation.level", "read_committed")
    producer = Producer({"bootstrap.servers": shared.node.bootstrap, "transactional.id": "shares"})
    producer.init_transactions(60)
    for values, ends_well in ((range(5), True), (range(100, 105), False), (range(5, 10), True)):
        producer.begin_transaction()
        for value in values:
            producer.produce(shared.topic, str(value))
        assert producer.flush(60) == 0
        producer.commit_transaction(60) if ends_well else producer.abort_transaction(60)
    shared.send(range(10, 15))
    got = console(tools, shared, "--max-messages", "15", "--timeout-ms", "20000")
    assert sorted(got) == list(range(15))


def test_the_performance_tool_reads_with_several_consumers(tools: Tools, shared: Shared) -> None:
    shared.send(range(5000), **{"linger.ms": 5})
    out = tools.check(
        PERFORMANCE, *shared.where, "--group", shared.group, "--num-records", "5000",
        "--threads", "3", "--hide-header", "--timeout", "20000",
    )  # fmt: skip
    # start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, ...
    assert int(out.strip().splitlines()[-1].split(", ")[5]) >= 5000


class Verifiable:
    """A verifiable share consumer in a JVM that can be killed."""

    def __init__(self, shared: Shared, folder: Path, *options: str) -> None:
        self.events: list[dict[str, Any]] = []
        with open(folder / f"{uuid.uuid4().hex}.log", "ab") as errors:
            self._process = subprocess.Popen(
                [*apache.java(options=("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")), VERIFIABLE,
                 *shared.where, "--group-id", shared.group, "--verbose", *options],
                stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(json.JSONDecodeError):  # cut short by SIGKILL
                self.events.append(json.loads(line))

    @property
    def got(self) -> list[int]:
        """The values that were delivered to it."""
        seen = list(self.events)
        return [int(each["value"]) for each in seen if each["name"] == "record_data"]

    @property
    def acknowledged(self) -> int:
        seen = list(self.events)
        done = [each for each in seen if each["name"] == "offsets_acknowledged"]
        return sum(each["count"] for each in done if each["success"])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(SECONDS_MAX)
        self._reader.join(SECONDS_MAX)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextlib.contextmanager
def verifiable(shared: Shared, folder: Path, *options: str) -> Iterator[Verifiable]:
    consumer = Verifiable(shared, folder, *options)
    try:
        yield consumer
    finally:
        consumer.kill()


def test_consumers_share_one_partition_and_each_record_is_one_consumers(
    broker: Node, topic: str, tmp_path: Path
) -> None:
    shared = Shared(broker, topic, 1)
    mode = ("--acknowledgement-mode", "sync")
    with (
        verifiable(shared, tmp_path, *mode) as one,
        verifiable(shared, tmp_path, *mode) as two,
    ):
        crew = (one, two)
        sent = 0

        def all_work() -> bool:
            """Until each of them has got something of the one partition."""
            nonlocal sent
            shared.send(range(sent, sent + 100), **{"batch.num.messages": 5})
            sent += 100
            time.sleep(0.2)
            return all(each.got for each in crew)

        wait_until(all_work, "both get records of one partition", SECONDS_MAX)
        wait_until(
            lambda: sum(each.acknowledged for each in crew) >= sent,
            "every record is acknowledged",
            SECONDS_MAX,
            lambda: str([each.acknowledged for each in crew]),
        )
        assert Counter(value for each in crew for value in each.got) == Counter(range(sent))


def test_what_a_killed_consumer_held_goes_to_others_before_its_lock_ends(
    tools: Tools, broker: Node, topic: str
) -> None:
    shared = Shared(broker, topic, 1)
    shared.configure("share.record.lock.duration.ms", str(LOCK_MS))
    shared.send(range(10))
    with subprocess.Popen(
        [sys.executable, str(KEEPER), broker.bootstrap, shared.group, topic, "10"],
        stdout=subprocess.PIPE, text=True,
    ) as keeper:  # fmt: skip
        try:
            assert keeper.stdout is not None
            held = [int(keeper.stdout.readline()) for _ in range(10)]
        finally:
            keeper.kill()
    assert held == list(range(10))
    killed = time.monotonic()
    got = console(tools, shared, "--max-messages", "10", "--timeout-ms", "20000")
    assert time.monotonic() - killed < LOCK_MS / 1000
    assert sorted(got) == held

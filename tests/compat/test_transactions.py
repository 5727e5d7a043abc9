"""Transactions with real clients, and what Apache's tools make of them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.model.errors import ErrorCode
from tests.oracle.nodes import Node
from tests.oracle.tools import Tools
from tests.unit.server.asking import asking
from tests.unit.server.txn_talk import Talk

SECONDS_MAX = 30.0


@pytest.fixture
def topics(broker: Node, topic: str) -> tuple[str, str]:
    """One to read from and one to write to, of three partitions each."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    names = (f"{topic}-in", f"{topic}-out")
    for made in admin.create_topics([NewTopic(name, 3, 1) for name in names]).values():
        made.result(SECONDS_MAX)
    return names


def producing(broker: Node, name: str | None = None, **config: str | int) -> Producer:
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": broker.bootstrap}
    if name is not None:
        settings["transactional.id"] = name
    made = Producer(settings | {key.replace("_", "."): value for key, value in config.items()})
    if name is not None:
        made.init_transactions(SECONDS_MAX)
    return made


@contextlib.contextmanager
def consuming(broker: Node, group: str, *, committed: bool = True) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    yield consumer
    consumer.close()


def read_all(broker: Node, topic: str, *, committed: bool = True) -> list[str]:
    """Every value up to the end that the reader may see."""
    with consuming(broker, "nobody", committed=committed) as consumer:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(3)])
        values, ended = [], set()
        deadline = time.monotonic() + SECONDS_MAX
        while len(ended) < 3:
            assert time.monotonic() < deadline, f"only {len(ended)} partitions came to an end"
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
            else:
                values.append((message.value() or b"").decode())
        return sorted(values)


def write(producer: Producer, topic: str, prefix: str, count: int = 30) -> list[str]:
    values = sorted(f"{prefix}-{number}" for number in range(count))
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % 3)
    assert producer.flush(SECONDS_MAX) == 0
    return values


def test_committed_transactions_are_seen_and_aborted_ones_are_not(
    broker: Node, topics: tuple[str, str]
) -> None:
    out = topics[1]
    producer = producing(broker, out)
    seen: list[str] = []
    for number in range(6):
        producer.begin_transaction()
        values = write(producer, out, str(number))
        assert read_all(broker, out) == sorted(seen)
        if number % 2:
            producer.abort_transaction(SECONDS_MAX)
        else:
            producer.commit_transaction(SECONDS_MAX)
            seen += values
    assert read_all(broker, out) == sorted(seen)
    assert len(read_all(broker, out, committed=False)) == 180


def test_a_new_producer_fences_the_old_one(broker: Node, topics: tuple[str, str]) -> None:
    out = topics[1]
    zombie = producing(broker, out)
    zombie.begin_transaction()
    write(zombie, out, "zombie")
    heir = producing(broker, out)
    heir.begin_transaction()
    values = write(heir, out, "heir")
    heir.commit_transaction(SECONDS_MAX)
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(SECONDS_MAX)
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    assert read_all(broker, out) == values


def test_offsets_are_committed_with_the_records_or_not_at_all(
    broker: Node, topics: tuple[str, str]
) -> None:
    source, out = topics
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    write(producing(broker), source, "in")
    producer = producing(broker, out)

    def committed() -> int:
        wanted = [TopicPartition(source, index) for index in range(3)]
        (answer,) = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(out, wanted)], request_timeout=SECONDS_MAX
        ).values()
        return sum(max(each.offset, 0) for each in answer.result().topic_partitions)

    with consuming(broker, out) as consumer:
        consumer.subscribe([source])
        for commit in (False, True):
            producer.begin_transaction()
            consumed = 0
            deadline = time.monotonic() + SECONDS_MAX
            while consumed < 30 and time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    producer.produce(out, (message.value() or b"") + b"!", partition=0)
                    consumed += 1
            assert consumed == 30
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
            )
            if commit:
                producer.commit_transaction(SECONDS_MAX)
                deadline = time.monotonic() + SECONDS_MAX
                while committed() != 30:  # the commit is decided, and takes effect soon
                    assert time.monotonic() < deadline, committed()
                continue
            producer.abort_transaction(SECONDS_MAX)
            assert committed() == 0
            for each in consumer.assignment():
                consumer.seek(TopicPartition(each.topic, each.partition, 0))
    assert len(read_all(broker, out)) == 30


def test_a_transaction_that_takes_too_long_is_aborted(
    make_node: Callable[..., Node], topic: str
) -> None:
    key = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    with make_node(config={key: "200"}) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(SECONDS_MAX)
        slow = producing(node, topic, transaction_timeout_ms=1000)
        slow.begin_transaction()
        write(slow, topic, "slow")
        plain = producing(node)
        plain.produce(topic, b"behind", partition=0)
        assert plain.flush(SECONDS_MAX) == 0
        deadline = time.monotonic() + SECONDS_MAX
        while read_all(node, topic) != ["behind"]:
            assert time.monotonic() < deadline, "the open transaction holds its readers for ever"
        with pytest.raises(KafkaException):
            slow.commit_transaction(SECONDS_MAX)


def test_transactions_survive_a_killed_node(make_node: Callable[..., Node], topic: str) -> None:
    node = make_node()
    with node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(SECONDS_MAX)
        producer = producing(node, topic)
        expected: list[str] = []
        for number in range(4):
            producer.begin_transaction()
            values = write(producer, topic, str(number))
            if number % 2:
                node.kill()
                node.start()
            try:
                producer.commit_transaction(SECONDS_MAX)
            except KafkaException as problem:
                assert problem.args[0].txn_requires_abort(), problem
                producer.abort_transaction(SECONDS_MAX)
            else:
                expected += values
        assert read_all(node, topic) == sorted(expected)
        assert len(expected) >= 60


# -- Apache's tools -------------------------------------------------------------------------------


def rows(printed: str) -> list[dict[str, str]]:
    """A table as the tools print it, row by row."""
    lines = [re.split(r"\s*\t\s*|\s{2,}", line.strip()) for line in printed.strip().splitlines()]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]


@pytest.mark.java
def test_the_transactions_command_lists_describes_and_terminates(
    broker: Node, tools: Tools, topics: tuple[str, str]
) -> None:
    out = topics[1]

    def command(*arguments: str) -> str:
        return tools.check(
            "TransactionsCommand", "--bootstrap-server", broker.bootstrap, *arguments
        )

    producer = producing(broker, out)
    producer.begin_transaction()
    write(producer, out, "open")
    (listed,) = (row for row in rows(command("list")) if row["TransactionalId"] == out)
    assert listed["TransactionState"] == "Ongoing"
    pattern = rows(command("list", "--transactional-id-pattern", f"{out[:-1]}."))
    assert [row["TransactionalId"] for row in pattern] == [out]

    (described,) = rows(command("describe", "--transactional-id", out))
    assert described["TransactionState"] == "Ongoing"
    assert f"{out}-0" in described["TopicPartitions"]

    (active,) = rows(command("describe-producers", "--topic", out, "--partition", "0"))
    assert active["ProducerId"] == listed["ProducerId"]
    assert active["CurrentTransactionStartOffset"] == "0"
    assert (
        rows(command("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "15")) == []
    )

    command("forceTerminateTransaction", "--transactionalId", out)
    (described,) = rows(command("describe", "--transactional-id", out))
    assert described["TransactionState"] in ("CompleteAbort", "Empty")
    assert read_all(broker, out) == []
    with pytest.raises(KafkaException):
        producer.commit_transaction(SECONDS_MAX)


@pytest.mark.java
def test_the_transactions_command_aborts_on_a_partition(
    broker: Node, tools: Tools, topics: tuple[str, str]
) -> None:
    out = topics[1]
    producer = producing(broker, out)
    producer.begin_transaction()
    write(producer, out, "open")
    tools.check(
        "TransactionsCommand", "--bootstrap-server", broker.bootstrap, "abort",
        "--topic", out, "--partition", "0", "--start-offset", "0",
    )  # fmt: skip
    described = tools.check(
        "TransactionsCommand", "--bootstrap-server", broker.bootstrap,
        "describe-producers", "--topic", out, "--partition", "0",
    )  # fmt: skip
    (still,) = rows(described)
    assert still["CurrentTransactionStartOffset"] == "None"


@pytest.mark.java
def test_apaches_producer_writes_transactions_of_its_own_version(
    broker: Node, tools: Tools, topics: tuple[str, str]
) -> None:
    printed = tools.check(
        "ProducerPerformance", "--bootstrap-server", broker.bootstrap, "--topic", topics[1],
        "--num-records", "5000", "--record-size", "100", "--throughput", "1000",
        "--transactional-id", topics[1], "--transaction-duration-ms", "100",
    )  # fmt: skip
    assert "5000 records sent" in printed
    assert len(read_all(broker, topics[1])) == 5000


@pytest.mark.java
def test_dump_log_segments_decodes_the_transaction_log(
    make_node: Callable[..., Node], tools: Tools, topic: str
) -> None:
    node = make_node()
    with node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(SECONDS_MAX)
        producer = producing(node, topic)
        producer.begin_transaction()
        write(producer, topic, "x")
        producer.abort_transaction(SECONDS_MAX)
        node.stop()
    states = []
    for log in sorted(Path(node.data).glob("__transaction_state-*/*.log")):
        if log.stat().st_size:
            dumped = tools.check(
                "DumpLogSegments", "--transaction-log-decoder", "--files", str(log)
            )
            states += re.findall(r'"transactionStatus":(\d)|state=(\w+)', dumped)
    found = [number or name for number, name in states]
    assert found[0] in ("0", "Empty") and found[-1] in ("5", "CompleteAbort"), found
    aborted = [
        tools.check("DumpLogSegments", "--files", str(index))
        for index in Path(node.data).glob(f"{topic}-*/*.txnindex")
        if index.stat().st_size
    ]
    assert len(aborted) == 3 and all("producerId" in each for each in aborted)


@pytest.mark.java
def test_a_transaction_that_nobody_coordinates_is_found_and_ended(
    make_node: Callable[..., Node], tools: Tools, topic: str
) -> None:
    with make_node(config={"transaction.partition.verification.enable": "false"}) as node:
        asyncio.run(leave_hanging(node, topic))
        assert read_all(node, topic) == []

        def command(*arguments: str) -> str:
            return tools.check(
                "TransactionsCommand", "--bootstrap-server", node.bootstrap, *arguments
            )

        (hanging,) = rows(command("find-hanging", "--topic", topic))
        assert (hanging["Topic"], hanging["Partition"]) == (topic, "0")
        command("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
        assert rows(command("find-hanging", "--topic", topic)) == []
        plain = producing(node)
        plain.produce(topic, b"behind", partition=0)
        assert plain.flush(SECONDS_MAX) == 0
        assert read_all(node, topic) == ["behind"]


async def leave_hanging(node: Node, topic: str) -> None:
    """A batch, years old, of a transaction that its coordinator has never heard of."""
    async with asking(node.port) as asker:
        talk = Talk(asker, topic)
        talk.topic = topic
        await talk.open()
        await talk.init()
        assert await talk.send(0, version=9) == [ErrorCode.NONE]

"""Apache's tools that read in groups and write in transactions, as operators type them."""

from __future__ import annotations

import json
import re
import uuid
from itertools import groupby

import pytest
from confluent_kafka import Producer

from tests.oracle import apache
from tests.oracle.nodes import Node
from tests.oracle.tools import Tools

pytestmark = pytest.mark.java

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PROTOCOLS = ("classic", "consumer")


@pytest.fixture
def group() -> str:
    """A group that no other test uses."""
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def filled(broker: Node, tools: Tools, topic: str) -> str:
    """A topic of two partitions with ten committed values in each, and ten aborted between them."""
    where = ("--bootstrap-server", broker.bootstrap)
    tools.check("TopicCommand", *where, "--create", "--topic", topic, "--partitions", "2")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for values, ends_well in (
        (range(10), True), (range(100, 110), False), (range(10, 20), True),
    ):  # fmt: skip
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, str(value), partition=value % 2)
        assert producer.flush(60) == 0
        producer.commit_transaction(60) if ends_well else producer.abort_transaction(60)
    return topic


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_console_consumer_reads_committed_records_and_goes_on_where_its_group_stopped(
    broker: Node, tools: Tools, filled: str, group: str, protocol: str
) -> None:
    def read(*options: str) -> list[int]:
        out = tools.check(
            CONSOLE, "--bootstrap-server", broker.bootstrap, "--topic", filled, "--from-beginning",
            "--group", group, "--isolation-level", "read_committed",
            "--command-property", f"group.protocol={protocol}", *options,
        )  # fmt: skip
        return [int(line) for line in out.splitlines()]

    first = read("--max-messages", "7")
    assert len(first) == 7
    rest = read("--max-messages", "13")
    assert sorted(first + rest) == list(range(20))


def test_console_consumer_reads_aborted_records_unless_told_otherwise(
    broker: Node, tools: Tools, filled: str
) -> None:
    out = tools.check(
        CONSOLE, "--bootstrap-server", broker.bootstrap, "--topic", filled, "--from-beginning",
        "--max-messages", "30",
    )  # fmt: skip
    assert sorted(map(int, out.split())) == [*range(20), *range(100, 110)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_verifiable_consumer_reads_and_commits_everything(
    broker: Node, filled: str, group: str, protocol: str
) -> None:
    # In a JVM of its own: the tool ends its consumer in a shutdown hook.
    ran = apache.run_tool(
        "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", broker.bootstrap,
        "--topic", filled, "--group-id", group, "--group-protocol", protocol,
        "--reset-policy", "earliest", "--max-messages", "30",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    names = [event["name"] for event in events]
    assert names[0] == "startup_complete" and "shutdown_complete" in names
    [assigned] = [event for event in events if event["name"] == "partitions_assigned"]
    assert len(assigned["partitions"]) == 2
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 30
    commits = [event for event in events if event["name"] == "offsets_committed"]
    assert commits and all(event["success"] for event in commits)
    committed = {
        place["partition"]: place["offset"] for event in commits for place in event["offsets"]
    }
    # Behind the last record of each partition; its commit marker is not the consumer's to count.
    assert committed.keys() == {0, 1} and set(committed.values()) <= {17, 18}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_consumer_performance_reads_in_a_group(
    broker: Node, tools: Tools, topic: str, group: str, protocol: str
) -> None:
    where = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
    tools.check("TopicCommand", *where, "--create", "--partitions", "3")
    tools.check("ProducerPerformance", *where, "--num-records", "2000", "--record-size", "50",
                "--throughput", "-1")  # fmt: skip
    report = tools.check(
        "ConsumerPerformance", *where, "--num-records", "2000", "--group", group,
        "--command-property", f"group.protocol={protocol}",
    )  # fmt: skip
    assert [column.strip() for column in report.splitlines()[1].split(",")][4] == "2000"

    listed = tools.check("GroupsCommand", "--bootstrap-server", broker.bootstrap, "--list")
    assert re.search(rf"^{group} +{protocol.capitalize()} +consumer\b", listed, re.MULTILINE)


def test_producer_performance_commits_its_transactions(
    broker: Node, tools: Tools, topic: str
) -> None:
    where = ("--bootstrap-server", broker.bootstrap)
    tools.check("TopicCommand", *where, "--create", "--topic", topic)
    tools.check(
        "ProducerPerformance", *where, "--topic", topic, "--num-records", "2000",
        "--record-size", "50", "--throughput", "10000", "--transactional-id", topic,
        "--transaction-duration-ms", "20",
    )  # fmt: skip
    out = tools.check(
        CONSOLE, *where, "--topic", topic, "--from-beginning", "--max-messages", "2000",
        "--isolation-level", "read_committed",
    )  # fmt: skip
    assert len(out.splitlines()) == 2000
    listed = tools.check("TransactionsCommand", *where, "list")
    [mine] = [line.split() for line in listed.splitlines() if line.startswith(topic)]
    assert mine[3] == "CompleteCommit"


def test_transactional_message_copier_copies_each_record_once_though_it_aborts_at_random(
    broker: Node, tools: Tools, topic: str, group: str
) -> None:
    where, copy = ("--bootstrap-server", broker.bootstrap), f"{topic}-copy"
    for each in (topic, copy):
        tools.check("TopicCommand", *where, "--create", "--topic", each)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(300):
        producer.produce(topic, str(number))
    assert producer.flush(60) == 0
    ran = apache.run_tool(
        "org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", broker.bootstrap,
        "--input-topic", topic, "--input-partition", "0", "--output-topic", copy,
        "--transactional-id", topic, "--consumer-group", group, "--max-messages", "300",
        "--transaction-size", "20", "--enable-random-aborts",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    end = json.loads(ran.stdout.splitlines()[-1])
    assert (end["stage"], end["remaining"]) == ("ShutdownComplete", 0)

    out = tools.check(
        CONSOLE, *where, "--topic", copy, "--from-beginning", "--isolation-level",
        "read_committed", "--max-messages", "300",
    )  # fmt: skip
    assert out.split() == [str(number) for number in range(300)]


def test_console_consumer_decodes_the_internal_topics(
    broker: Node, tools: Tools, filled: str, group: str
) -> None:
    where = ("--bootstrap-server", broker.bootstrap)
    tools.check(CONSOLE, *where, "--topic", filled, "--from-beginning", "--max-messages", "30",
                "--group", group)  # fmt: skip

    def decoded(topic: str, formatter: str) -> list[dict[str, dict[str, dict[str, object]]]]:
        out = tools.check(
            CONSOLE, *where, "--topic", topic, "--from-beginning", "--timeout-ms", "3000",
            "--formatter", f"org.apache.kafka.tools.consumer.{formatter}",
        )  # fmt: skip
        # One object behind the other, with nothing between them.
        return [json.loads(text) for text in out.replace('}{"key"', '}\n{"key"').splitlines()]

    offsets = decoded("__consumer_offsets", "OffsetsMessageFormatter")
    mine = [each for each in offsets if each["key"]["data"]["group"] == group]
    assert {each["key"]["data"]["topic"] for each in mine} == {filled}
    assert {each["key"]["data"]["partition"] for each in mine} == {0, 1}

    states = [
        each["value"]["data"]["transactionStatus"]
        for each in decoded("__transaction_state", "TransactionLogMessageFormatter")
        if each["key"]["data"]["transactionalId"] == filled
    ]
    # Empty; begun, prepared and complete three times. Partitions may come one by one.
    assert [state for state, _ in groupby(states)] == [0, 1, 2, 4, 1, 3, 5, 1, 2, 4]

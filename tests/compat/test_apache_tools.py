"""Apache Kafka's own command-line tools, as operators type them, and what they print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.oracle import apache
from tests.oracle.nodes import Node
from tests.oracle.tools import ToolResult, Tools

pytestmark = pytest.mark.java


class Shell:
    """The tools, pointed at the broker under test."""

    def __init__(self, tools: Tools, broker: Node) -> None:
        self._tools = tools
        self._where = ("--bootstrap-server", broker.bootstrap)

    def __call__(self, name: str, *arguments: str) -> str:
        return self._tools.check(name, *self._where, *arguments)

    def attempt(self, name: str, *arguments: str) -> ToolResult:
        return self._tools.run(name, *self._where, *arguments)


@pytest.fixture
def shell(tools: Tools, broker: Node) -> Shell:
    return Shell(tools, broker)


def produce(shell: Shell, topic: str, count: int) -> None:
    shell(
        "ProducerPerformance", "--topic", topic, "--num-records", str(count),
        "--record-size", "100", "--throughput", "-1",
    )  # fmt: skip


def test_topic_command_creates_lists_describes_alters_and_deletes(shell: Shell, topic: str) -> None:
    made = shell("TopicCommand", "--create", "--topic", topic, "--partitions", "3",
                 "--config", "retention.ms=3600000")  # fmt: skip
    assert f"Created topic {topic}." in made
    assert topic in shell("TopicCommand", "--list").split()

    described = shell("TopicCommand", "--describe", "--topic", topic).splitlines()
    assert re.match(
        rf"Topic: {topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 3\tReplicationFactor: 1\t"
        r"Configs: .*retention.ms=3600000",
        described[0],
    )
    assert [line.split("\t")[1:6] for line in described[1:4]] == [
        [f"Topic: {topic}", f"Partition: {number}", "Leader: 1", "Replicas: 1", "Isr: 1"]
        for number in range(3)
    ]

    shell("TopicCommand", "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in shell("TopicCommand", "--describe", "--topic", topic)
    shell("TopicCommand", "--delete", "--topic", topic)
    assert topic not in shell("TopicCommand", "--list").split()


def test_topic_command_explains_a_refusal(shell: Shell, topic: str) -> None:
    shell("TopicCommand", "--create", "--topic", topic)
    twice = shell.attempt("TopicCommand", "--create", "--topic", topic)
    assert twice.status == 1 and "already exists" in twice.out
    shrunk = shell.attempt("TopicCommand", "--alter", "--topic", topic, "--partitions", "1")
    assert shrunk.status == 1 and "InvalidPartitions" in shrunk.err
    replicas = shell.attempt(
        "TopicCommand", "--create", "--topic", topic + "x", "--replication-factor", "3"
    )
    assert replicas.status == 1 and "InvalidReplicationFactor" in replicas.err
    name = shell.attempt("TopicCommand", "--create", "--topic", "not/a/name")
    assert name.status == 1


def test_config_command_sets_describes_and_unsets_a_topics_configuration(
    shell: Shell, topic: str
) -> None:
    shell("TopicCommand", "--create", "--topic", topic)
    config = ("--entity-type", "topics", "--entity-name", topic)
    altered = shell(
        "kafka.admin.ConfigCommand", *config, "--alter",
        "--add-config", "retention.ms=7200000,cleanup.policy=[compact,delete]",
    )  # fmt: skip
    assert f"Completed updating config for topic {topic}." in altered
    described = shell("kafka.admin.ConfigCommand", *config, "--describe")
    assert (
        "retention.ms=7200000 sensitive=false "
        "synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=7200000}" in described
    )
    assert "cleanup.policy=compact,delete" in described

    shell("kafka.admin.ConfigCommand", *config, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in shell("kafka.admin.ConfigCommand", *config, "--describe")
    everything = shell("kafka.admin.ConfigCommand", *config, "--describe", "--all")
    assert "  retention.ms=604800000 sensitive=false synonyms={}" in everything or (
        "DEFAULT_CONFIG:log.retention" in everything
    )


def test_config_command_changes_the_broker_without_a_restart(shell: Shell) -> None:
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    shell("kafka.admin.ConfigCommand", *broker, "--alter",
          "--add-config", "log.cleaner.threads=2")  # fmt: skip
    described = shell("kafka.admin.ConfigCommand", *broker, "--describe")
    assert "log.cleaner.threads=2" in described and "DYNAMIC_BROKER_CONFIG" in described
    shell("kafka.admin.ConfigCommand", *broker, "--alter", "--delete-config", "log.cleaner.threads")
    refused = shell.attempt(
        "kafka.admin.ConfigCommand", *broker, "--alter", "--add-config", "log.dirs=/elsewhere"
    )
    assert refused.status == 1 and "log.dirs" in refused.err


def test_config_command_shows_why_a_value_is_refused(shell: Shell, topic: str) -> None:
    shell("TopicCommand", "--create", "--topic", topic)
    refused = shell.attempt(
        "kafka.admin.ConfigCommand", "--entity-type", "topics", "--entity-name", topic,
        "--alter", "--add-config", "retention.ms=soon",
    )  # fmt: skip
    assert refused.status == 1
    assert "InvalidConfigurationException" in refused.err and "retention.ms" in refused.err


def test_get_offset_shell_knows_the_ends_and_times_of_a_partition(shell: Shell, topic: str) -> None:
    shell("TopicCommand", "--create", "--topic", topic)
    produce(shell, topic, 300)
    where = ("GetOffsetShell", "--topic", topic)
    assert shell(*where) == f"{topic}:0:300\n"
    assert shell(*where, "--time", "earliest") == f"{topic}:0:0\n"
    assert shell(*where, "--time", "latest") == f"{topic}:0:300\n"
    newest = int(shell(*where, "--time", "max-timestamp").split(":")[2])
    assert 0 <= newest < 300
    assert shell(*where, "--time", "0") == f"{topic}:0:0\n"


def test_delete_records_command_moves_the_start_of_the_log(
    shell: Shell, topic: str, tmp_path: Path
) -> None:
    shell("TopicCommand", "--create", "--topic", topic)
    produce(shell, topic, 100)
    plan = tmp_path / "offsets.json"
    plan.write_text(json.dumps({
        "version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 42}],
    }))  # fmt: skip
    deleted = shell("DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert f"partition: {topic}-0\tlow_watermark: 42" in deleted
    assert shell("GetOffsetShell", "--topic", topic, "--time", "earliest") == f"{topic}:0:42\n"


def test_log_dirs_command_reports_each_partitions_size(
    shell: Shell, broker: Node, topic: str
) -> None:
    shell("TopicCommand", "--create", "--topic", topic, "--partitions", "2")
    produce(shell, topic, 100)
    out = shell("LogDirsCommand", "--describe", "--topic-list", topic, "--broker-list", "1")
    report = json.loads(out.splitlines()[-1])
    [directory] = report["brokers"][0]["logDirs"]
    assert directory["logDir"] == str(broker.data) and directory["error"] is None
    sizes = {each["partition"]: each["size"] for each in directory["partitions"]}
    on_disk = {
        name: (broker.data / name / "00000000000000000000.log").stat().st_size for name in sizes
    }
    assert sizes == on_disk and sum(sizes.values()) > 100 * 100
    assert {(each["offsetLag"], each["isFuture"]) for each in directory["partitions"]} == {
        (0, False)
    }


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_producer_performance_sends_every_record_with(shell: Shell, topic: str, codec: str) -> None:
    shell("TopicCommand", "--create", "--topic", topic)
    report = shell(
        "ProducerPerformance", "--topic", topic, "--num-records", "5000", "--record-size", "100",
        "--throughput", "-1", "--command-property", f"compression.type={codec}", "acks=all",
    )  # fmt: skip
    assert "5000 records sent" in report
    assert shell("GetOffsetShell", "--topic", topic) == f"{topic}:0:5000\n"


def test_verifiable_producer_gets_each_record_acknowledged_in_order(
    broker: Node, shell: Shell, topic: str
) -> None:
    shell("TopicCommand", "--create", "--topic", topic)
    # In a JVM of its own: the tool waits for its acknowledgements in a shutdown hook.
    ran = apache.run_tool(
        "org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", broker.bootstrap,
        "--topic", topic, "--max-messages", "200",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    acknowledged = [each for each in events if each["name"] == "producer_send_success"]
    assert [each["value"] for each in acknowledged] == [str(number) for number in range(200)]
    assert [each["offset"] for each in acknowledged] == list(range(200))
    [summary] = [each for each in events if each["name"] == "tool_data"]
    assert (summary["sent"], summary["acked"]) == (200, 200)


def test_broker_api_versions_command_finds_every_offered_api_usable(
    shell: Shell, broker: Node
) -> None:
    out = shell("BrokerApiVersionsCommand")
    assert out.startswith(f"{broker.bootstrap} (id: 1 rack: null isFenced: false) -> (")
    offered = re.findall(r"\t(\w+)\((\d+)\): (\d+)(?: to (\d+))? \[usable: (\d+)\]", out)
    names = {name for name, *_ in offered}
    assert {"Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "CreateTopics"} <= names
    # The client of the same release uses the newest version of everything on offer.
    assert all(usable == (last or first) for _, _, first, last, usable in offered)

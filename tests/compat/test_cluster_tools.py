"""Apache's tools administer a cluster of Penstock nodes: what operators type, and what they see.

Three nodes vote and hold data, a fourth only holds data; it comes and goes.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from penstock.testing.cluster import Cluster
from tests.oracle import apache
from tests.oracle.tools import Tools

pytestmark = [pytest.mark.java, pytest.mark.penstock_only]

BOTH = "broker,controller"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
SECONDS_MAX = 30.0


class Shell:
    """The tools, pointed at a cluster."""

    def __init__(self, tools: Tools, cluster: Cluster) -> None:
        self._tools = tools
        self.cluster = cluster

    def __call__(self, name: str, *arguments: str) -> str:
        return self._tools.check(name, *placed(name, self.servers, arguments))

    @property
    def servers(self) -> tuple[str, str]:
        running = [each for each in self.cluster.brokers if each.running]
        return "--bootstrap-server", ",".join(f"127.0.0.1:{each.port}" for each in running)

    def of_controllers(self, name: str, *arguments: str) -> str:
        where = ("--bootstrap-controller", self.cluster.bootstrap_controllers)
        return self._tools.check(name, *placed(name, where, arguments))

    def refused(self, name: str, *arguments: str) -> str:
        result = self._tools.run(name, *placed(name, self.servers, arguments))
        assert result.status != 0
        return result.out + result.err


def placed(name: str, where: tuple[str, str], arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a command line: one tool wants the address behind its own command."""
    return (*arguments, *where) if name == "ClusterTool" else (*where, *arguments)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        # Only elections that a test asks for.
        "auto.leader.rebalance.enable": "false",
    }
    with Cluster(4, roles=[BOTH, BOTH, BOTH, "broker"], config=settings) as running:
        yield running


@pytest.fixture
def shell(tools: Tools, cluster: Cluster) -> Shell:
    return Shell(tools, cluster)


class Row(NamedTuple):
    leader: int
    replicas: list[int]
    isr: set[int]


def described(shell: Shell, *arguments: str) -> dict[tuple[str, int], Row]:
    """What TopicCommand says of partitions."""
    found = {}
    for line in shell("TopicCommand", "--describe", *arguments).splitlines():
        fields = dict(re.findall(r"(Topic|Partition|Leader|Replicas|Isr): ([\w,.-]*)", line))
        if "Partition" in fields:
            leader = int(fields["Leader"]) if fields["Leader"] != "none" else -1
            row = Row(leader, _numbers(fields["Replicas"]), set(_numbers(fields["Isr"])))
            found[fields["Topic"], int(fields["Partition"])] = row
    return found


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]


def eventually(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not true():
        assert time.monotonic() < deadline, f"in {SECONDS_MAX:g} s: {what}"
        time.sleep(0.1)


def fill(cluster: Cluster, topic: str, count: int = 2000, size: int = 100) -> None:
    """Write to the first two partitions in turn."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(count):
        producer.produce(topic, f"{number}".encode().ljust(size), partition=number % 2)
    assert producer.flush(SECONDS_MAX) == 0


def test_topics_get_as_many_replicas_as_there_are_brokers_for(shell: Shell, topic: str) -> None:
    made = ("--create", "--topic", topic, "--partitions", "8")
    refused = shell.refused("TopicCommand", *made, "--replication-factor", "5")
    assert "InvalidReplicationFactor" in refused
    shell("TopicCommand", *made, "--replication-factor", "3")
    rows = described(shell, "--topic", topic).values()
    assert len(rows) == 8
    for row in rows:
        assert len(set(row.replicas)) == 3
        assert row.leader == row.replicas[0]
        assert row.isr == set(row.replicas)
    leaders = [row.leader for row in rows]
    assert all(leaders.count(broker) == 2 for broker in (1, 2, 3, 4))


def test_the_quorum_tells_who_votes_and_how_far_everybody_is(
    shell: Shell, cluster: Cluster
) -> None:
    command = "MetadataQuorumCommand"
    for status in (
        shell(command, "describe", "--status"),
        shell.of_controllers(command, "describe", "--status"),
    ):
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        assert fields["ClusterId"].strip() == cluster.id
        assert int(fields["LeaderId"]) == cluster.active_controller()
        assert int(fields["HighWatermark"]) > 0
        voters = json.loads(fields["CurrentVoters"])
        assert [voter["id"] for voter in voters] == [1, 2, 3]
        assert all(voter["endpoints"][0].startswith("CONTROLLER://") for voter in voters)
        assert [it["id"] for it in json.loads(fields["CurrentObservers"])] == [4]
    rows = shell(command, "describe", "--replication").splitlines()[1:]
    standing = {int(row.split()[0]): row.split()[-1] for row in rows if row.strip()}
    leader = cluster.active_controller()
    expected = dict.fromkeys((1, 2, 3), "Follower") | {leader: "Leader", 4: "Observer"}
    assert standing == expected
    assert all(int(row.split()[3]) < 100 for row in rows if row.strip()), "nobody lags"


def test_the_cluster_names_itself_and_its_nodes(shell: Shell, cluster: Cluster) -> None:
    assert shell("ClusterTool", "cluster-id").split() == ["Cluster", "ID:", cluster.id]
    rows = shell("ClusterTool", "list-endpoints").splitlines()[1:]
    assert [int(row.split()[0]) for row in rows] == [1, 2, 3, 4]
    rows = shell.of_controllers("ClusterTool", "list-endpoints").splitlines()[1:]
    assert [(row.split()[0], row.split()[-1]) for row in rows] == [
        (number, "controller") for number in "123"
    ]


def test_features_are_raised_and_lowered(shell: Shell) -> None:
    def level(feature: str) -> str:
        told = shell("FeatureCommand", "describe")
        found = re.search(rf"Feature: {feature}\s.*FinalizedVersionLevel: (\S+)", told)
        assert found is not None
        return found[1]

    assert level("metadata.version") == "4.3-IV0"
    assert level("transaction.version") == "2"
    shell("FeatureCommand", "downgrade", "--feature", "transaction.version=1")
    eventually(lambda: level("transaction.version") == "1", "the level is lowered")
    shell("FeatureCommand", "upgrade", "--feature", "transaction.version=2")
    eventually(lambda: level("transaction.version") == "2", "the level is raised")
    refused = shell.refused("FeatureCommand", "upgrade", "--feature", "transaction.version=9")
    assert "transaction.version" in refused


def test_partitions_move_with_a_throttle_are_called_off_and_move_again(
    shell: Shell, topic: str, tmp_path: Path
) -> None:
    shell("TopicCommand", "--create", "--topic", topic, "--replica-assignment", "1:2,2:3")
    fill(shell.cluster, topic, 400, 20_000)  # more than comes with one fetch: a throttle counts
    wanted = tmp_path / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    proposed = shell(
        REASSIGN, "--generate", "--topics-to-move-json-file", str(wanted), "--broker-list", "3,4"
    )
    plan = tmp_path / "plan.json"
    plan.write_text(proposed.strip().splitlines()[-1])
    assert {n for p in json.loads(plan.read_text())["partitions"] for n in p["replicas"]} == {3, 4}
    here = ("--reassignment-json-file", str(plan))

    begun = shell(REASSIGN, *here, "--execute", "--throttle", "1000")
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in begun
    assert f"{topic}-0: replicas: " in shell(REASSIGN, "--list")
    assert "still in progress" in shell(REASSIGN, *here, "--verify", "--preserve-throttles")
    assert "Successfully cancelled" in shell(REASSIGN, *here, "--cancel")
    assert "No partition reassignments found" in shell(REASSIGN, "--list")
    rows = described(shell, "--topic", topic)
    assert [sorted(row.replicas) for row in rows.values()] == [[1, 2], [2, 3]]

    shell(REASSIGN, *here, "--execute", "--throttle", "100000000")
    eventually(lambda: moved(shell, here), "the partitions have moved")
    rows = described(shell, "--topic", topic)
    assert all(set(row.replicas) == row.isr == {3, 4} for row in rows.values())
    assert {row.leader for row in rows.values()} <= {3, 4}
    described_topic = shell("TopicCommand", "--describe", "--topic", topic)
    assert "throttled" not in described_topic, "--verify takes the throttle away"


def moved(shell: Shell, here: tuple[str, str]) -> bool:
    told = shell(REASSIGN, *here, "--verify")
    assert "failed" not in told
    return told.count("is completed") == 2


def test_moves_to_nowhere_are_refused(shell: Shell, topic: str, tmp_path: Path) -> None:
    shell("TopicCommand", "--create", "--topic", topic, "--replica-assignment", "1:2")
    plan = tmp_path / "plan.json"
    to = {"topic": topic, "partition": 0, "replicas": [1, 99]}
    plan.write_text(json.dumps({"version": 1, "partitions": [to]}))
    refused = shell.refused(REASSIGN, "--reassignment-json-file", str(plan), "--execute")
    assert "Unknown broker id 99" in refused


def test_a_broker_that_was_away_catches_up_and_leads_again_when_asked(
    shell: Shell, topic: str
) -> None:
    node = shell.cluster.node(4)
    shell("TopicCommand", "--create", "--topic", topic, "--replica-assignment", "4:1:2,4:2:3")
    node.kill()
    eventually(
        lambda: len(described(shell, "--topic", topic, "--under-replicated-partitions")) == 2,
        "others lead without broker 4",
    )
    rows = described(shell, "--topic", topic)
    assert {row.leader for row in rows.values()} == {1, 2}
    assert not described(shell, "--topic", topic, "--unavailable-partitions")
    listed = shell("ClusterTool", "list-endpoints", "--include-fenced-brokers")
    assert re.search(r"^4\s.*\sfenced\s", listed, re.MULTILINE)
    fill(shell.cluster, topic)
    node.start()
    eventually(
        lambda: not described(shell, "--topic", topic, "--under-replicated-partitions"),
        "broker 4 is in sync",
    )
    asked = ("--election-type", "preferred", "--topic", topic, "--partition")
    assert "Successfully completed" in shell("LeaderElectionCommand", *asked, "0")
    assert "already elected" in shell("LeaderElectionCommand", *asked, "0")
    everywhere = shell("LeaderElectionCommand", "--election-type", "preferred",
                       "--all-topic-partitions")  # fmt: skip
    assert f"{topic}-1" in everywhere
    eventually(
        lambda: {row.leader for row in described(shell, "--topic", topic).values()} == {4},
        "broker 4 leads",
    )


def test_replicas_are_equal_to_the_last_byte(shell: Shell, topic: str) -> None:
    shell("TopicCommand", "--create", "--topic", topic, "--replica-assignment", "1:2:3,4:1:2")
    fill(shell.cluster, topic)
    command = [
        *apache.java(options=apache.JVM_SHORT),
        "org.apache.kafka.tools.ReplicaVerificationTool",
        "--broker-list", shell.cluster.bootstrap_servers, "--topics-include", topic,
        "--time", "-2", "--report-interval-ms", "200",
    ]  # fmt: skip
    # It goes on for ever, and says how far it is.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = []
            for line in process.stdout:
                said.append(line)
                assert len(said) < 200, said[-5:]
                if re.search(r"max lag is 0 for partition .* at offset 1000 ", line):
                    break
            else:
                pytest.fail("".join(said))
        finally:
            process.kill()
    assert not any("has different" in line or "mismatch" in line for line in said)


def test_what_was_decided_is_read_from_the_metadata_log(shell: Shell, tools: Tools) -> None:
    """Runs after the others: their moves, elections and losses are all in it."""
    folder = Path(shell.cluster.directory(1)) / "__cluster_metadata-0"
    segment = min(folder.glob("*.log"))
    dump = tools.check("DumpLogSegments", "--cluster-metadata-decoder", "--files", str(segment))
    payloads = [json.loads(text) for text in re.findall(r"payload: (\{.*\})", dump)]
    assert "unknown" not in dump.lower()
    moves = [it["data"] for it in payloads if it["type"] == "PARTITION_CHANGE_RECORD"]
    assert any(move.get("addingReplicas") for move in moves)
    assert any(move.get("addingReplicas") == [] for move in moves), "a move ended"
    fenced = [it["data"] for it in payloads if it["type"] == "BROKER_REGISTRATION_CHANGE_RECORD"]
    assert any(change["brokerId"] == 4 and change["fenced"] == 1 for change in fenced)


def test_a_broker_that_will_not_come_back_is_forgotten(shell: Shell) -> None:
    shell.cluster.node(4).stop()
    assert "Broker 4 is no longer registered." in shell("ClusterTool", "unregister", "--id", "4")
    eventually(
        lambda: (
            not re.search(
                r"^4\s", shell("ClusterTool", "list-endpoints", "--include-fenced-brokers"), re.M
            )
        ),
        "nobody lists broker 4",
    )
    again = shell.refused("ClusterTool", "unregister", "--id", "4")
    assert "Broker 4 is not registered." in again

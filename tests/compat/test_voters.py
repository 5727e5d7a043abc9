"""Apache's tools change a quorum of Penstock nodes, and read what it leaves on disk."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing.cluster import Cluster
from tests.oracle import apache
from tests.oracle.tools import Tools

pytestmark = [pytest.mark.java, pytest.mark.penstock_only]

QUORUM = "MetadataQuorumCommand"
SECONDS_MAX = 30


class Operator:
    """Apache's tools, pointed at the cluster."""

    def __init__(self, tools: Tools, cluster: Cluster) -> None:
        self.tools = tools
        self.cluster = cluster

    def quorum(self, *words: str, settings: Path | None = None) -> str:
        given = () if settings is None else ("--command-config", str(settings))
        where = ("--bootstrap-server", self.cluster.bootstrap_servers)
        return self.tools.check(QUORUM, *where, *given, *words)

    def status(self) -> dict[str, str]:
        lines = self.quorum("describe", "--status").splitlines()
        return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}

    def voters(self) -> dict[int, str]:
        """Their directories, by id."""
        listed = json.loads(self.status()["CurrentVoters"])
        return {each["id"]: each["directoryId"] for each in listed}

    def until_voters(self, *ids: int) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while sorted(self.voters()) != list(ids):
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.2)


@pytest.fixture(scope="module")
def left(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A quorum of three that got a fourth voter and lost its leader's vote, then its power."""
    root = tmp_path_factory.mktemp("voters")
    small = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
    with Cluster(nodes=3, dynamic=True, data=root, config=small) as cluster:
        operator = Operator(tools, cluster)
        fourth = cluster.add(4, "broker,controller")
        fourth.start()
        settings = root / "fourth.properties"
        words = {
            "process.roles": "broker,controller",
            "node.id": "4",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{fourth.port},"
            f"CONTROLLER://127.0.0.1:{fourth.controller_port}",
            "log.dirs": cluster.directory(4),
        }
        settings.write_text("".join(f"{key}={value}\n" for key, value in words.items()))
        assert "Added controller 4" in operator.quorum("add-controller", settings=settings)
        operator.until_voters(1, 2, 3, 4)
        leader = int(operator.status()["LeaderId"])
        removed = operator.quorum(
            "remove-controller",
            "--controller-id", str(leader),
            "--controller-directory-id", operator.voters()[leader],
        )  # fmt: skip
        assert f"Removed  KRaft controller {leader}" in removed
        operator.until_voters(*sorted({1, 2, 3, 4} - {leader}))
        assert int(operator.status()["LeaderId"]) != leader
        for number in range(15):
            where = ("--bootstrap-server", cluster.bootstrap_servers)
            tools.check("TopicCommand", *where, "--create", "--topic", f"t{number}")
        cluster.kill()
        yield cluster


def metadata(cluster: Cluster, node: int, pattern: str) -> list[Path]:
    return sorted(Path(cluster.directory(node), "__cluster_metadata-0").glob(pattern))


def shell(path: Path, *words: str) -> list[str]:
    """What Apache's metadata shell prints; in a process of its own, as it closes its output."""
    ran = apache.run_tool("org.apache.kafka.shell.MetadataShell", "--snapshot", str(path), *words)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


def test_the_log_of_every_member_can_be_dumped(left: Cluster, tools: Tools) -> None:
    for node in (1, 2, 3, 4):
        files = ",".join(map(str, metadata(left, node, "*.log")))
        out = tools.check("DumpLogSegments", "--cluster-metadata-decoder", "--files", files)
        assert "isvalid: false" not in out and "Found" not in out
        counts = [json.loads(each) for each in re.findall(r"KRaftVoters (\{.*\})", out)]
        sizes = [len(each["voters"]) for each in counts]
        assert sizes == [3, 4, 3], "as formatted, one more, and one less"
        assert "TOPIC_RECORD" in out


def test_the_shell_reads_a_snapshot(left: Cluster, tools: Tools) -> None:
    snapshots = [path for node in (1, 2, 3, 4) for path in metadata(left, node, "*.checkpoint")]
    taken = [path for path in snapshots if not path.name.startswith("0" * 20)]
    assert taken, "no member took a snapshot"
    for path in taken[-1:]:
        assert shell(path, "ls", "/image/cluster/brokers") == ["1", "2", "3", "4"]
        topics = shell(path, "ls", "/image/topics/byName")
        assert topics and set(topics) <= {f"t{number}" for number in range(15)}
        dumped = tools.check("DumpLogSegments", "--cluster-metadata-decoder", "--files", str(path))
        assert "KRaftVoters" in dumped and "SnapshotFooter" in dumped


def test_the_shell_reads_a_log(left: Cluster) -> None:
    [log] = metadata(left, 4, "*.log")
    # The shell reads in a thread of its own, and on a busy machine answers before that is done.
    tries = (shell(log, "ls", "/image/topics/byName") for _ in range(5))
    assert any("t14" in topics for topics in tries)


def test_a_static_quorum_becomes_one_that_can_change(tools: Tools) -> None:
    with Cluster(nodes=3) as cluster:
        operator = Operator(tools, cluster)
        where = ("--bootstrap-server", cluster.bootstrap_servers)
        raised = ("FeatureCommand", *where, "upgrade", "--feature", "kraft.version=1")
        deadline = time.monotonic() + SECONDS_MAX
        while (tried := tools.run(*raised)).status:
            assert "has not said yet" in tried.out + tried.err
            assert time.monotonic() < deadline
            time.sleep(0.5)
        features = tools.check("FeatureCommand", *where, "describe")
        assert re.search(r"kraft\.version.*FinalizedVersionLevel: 1", features)
        gone = next(node for node in (1, 2, 3) if node != int(operator.status()["LeaderId"]))
        operator.quorum(
            "remove-controller",
            "--controller-id", str(gone),
            "--controller-directory-id", operator.voters()[gone],
        )  # fmt: skip
        operator.until_voters(*sorted({1, 2, 3} - {gone}))
        cluster.kill()
        cluster.start()
        assert gone not in operator.voters(), "the log counts now, not what the file says"

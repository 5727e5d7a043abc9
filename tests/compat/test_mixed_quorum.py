"""Voters of Apache's make and of ours in one quorum: each of them follows the other, and leads.

This is what a migration by rolling restart rests upon: Penstock nodes join a running quorum of
Apache's, and go on when Apache's have left.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from tests.oracle import apache
from tests.oracle.nodes import ApacheNode, Node, NodeFailed, PenstockNode, format_penstock
from tests.oracle.tools import Tools

pytestmark = [
    pytest.mark.java,
    pytest.mark.penstock_only,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

SECONDS_MAX = 60


class Member(Node):
    """A controller and broker of a quorum that the log names."""

    number = 0
    servers = ""

    def properties(self) -> dict[str, str]:
        settings = super().properties()
        del settings["controller.quorum.voters"]
        return {
            **settings,
            "node.id": str(self.number),
            "advertised.listeners": settings["listeners"],
            "controller.quorum.bootstrap.servers": self.servers,
            "controller.quorum.auto.join.enable": "true",
            # Clients ask a dead broker until it is fenced: seconds make the test quick.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
        }


class ApacheMember(Member, ApacheNode):
    """Begins the quorum."""

    def prepare(self) -> None:
        self.write_properties()
        if (self.data / "meta.properties").exists():
            return
        words = ("format", "-t", self.cluster_id, "-c", str(self.properties_path), "--standalone")
        made = apache.run_tool("kafka.tools.StorageTool", *words)
        if made.returncode:
            raise NodeFailed(made.stderr)


class PenstockMember(Member, PenstockNode):
    """Joins it."""

    def prepare(self) -> None:
        self.write_properties()
        format_penstock(self.properties_path, self.cluster_id, "--no-initial-controllers")


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Member]]:
    """An Apache node, and two Penstock nodes that are to join its quorum."""
    root = tmp_path_factory.mktemp("mixed")
    made: list[Member] = [
        ApacheMember(root / "apache"),
        PenstockMember(root / "second"),
        PenstockMember(root / "third"),
    ]
    for number, member in enumerate(made, 1):
        member.number = number
        member.servers = ",".join(f"127.0.0.1:{each.controller_port}" for each in made)
    try:
        for member in made:
            member.start()
        yield made
    finally:
        for member in made:
            member.close()


class Quorum:
    """The quorum as Apache's own tool sees it, through one of the brokers."""

    def __init__(self, tools: Tools, broker: Node) -> None:
        self._tools = tools
        self._where = ("--bootstrap-server", broker.bootstrap)

    def status(self) -> dict[str, str]:
        out = self._tools.run("MetadataQuorumCommand", *self._where, "describe", "--status").out
        return {k: v.strip() for k, _, v in (line.partition(":") for line in out.splitlines())}

    @property
    def leader(self) -> int:
        return int(self.status().get("LeaderId", "-1"))

    @property
    def voters(self) -> list[int]:
        return [each["id"] for each in json.loads(self.status().get("CurrentVoters", "[]"))]

    @property
    def lagging(self) -> int:
        return int(self.status().get("MaxFollowerLag", "-1"))

    def create(self, topic: str) -> None:
        words = ("--create", "--topic", topic, "--partitions", "2", "--replication-factor", "2")
        self._tools.check("TopicCommand", *self._where, *words)

    def topics(self) -> set[str]:
        return set(self._tools.check("TopicCommand", *self._where, "--list").split())


def until(what: Callable[[], bool], name: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not what():
        assert time.monotonic() < deadline, f"not within {SECONDS_MAX} s: {name}"
        time.sleep(0.3)


def test_voters_of_both_makes_follow_and_lead_each_other(
    members: list[Member], tools: Tools
) -> None:
    theirs, second, third = members
    quorum = Quorum(tools, second)
    until(lambda: quorum.voters == [1, 2, 3], "both join by themselves")
    assert quorum.leader == 1
    quorum.create("while-apache-led")

    theirs.kill()
    until(lambda: quorum.leader in (2, 3), "a Penstock voter leads")
    quorum.create("while-penstock-led")

    theirs.start()
    until(lambda: quorum.lagging == 0, "Apache's voter follows")
    assert Quorum(tools, theirs).topics() >= {"while-apache-led", "while-penstock-led"}

    # Two of three are enough, whoever they are.
    gone = second if quorum.leader == 2 else third
    left = Quorum(tools, third if gone is second else second)
    gone.kill()
    until(lambda: left.leader in {1, 2, 3} - {gone.number}, "somebody leads")
    left.create("with-one-of-each")
    assert left.topics() >= {"while-apache-led", "while-penstock-led", "with-one-of-each"}

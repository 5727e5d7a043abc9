"""A data directory changes hands: from Apache Kafka to Penstock, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from penstock.platform.disk import AHEAD_FROM
from tests.compat.filling import fill, read_all
from tests.oracle.nodes import ApacheNode, Node, PenstockNode
from tests.oracle.tools import Tools

pytestmark = pytest.mark.java


@pytest.fixture(params=["stopped", "killed"])
def ended(request: pytest.FixtureRequest) -> Iterator[str]:
    """How the first owner left: with a clean shutdown, or in the middle of life."""
    yield request.param


def hand_over(before: Node, after: Node, ended: str) -> None:
    """Fill `before`, end it, and check that `after` serves every record."""
    with before:
        records = fill(before)
        before.stop() if ended == "stopped" else before.kill()
    with after:
        assert read_all(after, records) == records
        assert config_of(after, "filled-none")["segment.bytes"] == "1048576"


def config_of(node: Node, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    [answer] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in answer.result(30).items()}


@pytest.mark.penstock_only
def test_penstock_opens_what_apache_kafka_wrote(tmp_path: Path, ended: str) -> None:
    hand_over(
        ApacheNode(tmp_path / "apache", data=tmp_path / "data"),
        PenstockNode(tmp_path / "penstock", data=tmp_path / "data"),
        ended,
    )


@pytest.mark.penstock_only
def test_apache_kafka_opens_what_penstock_wrote(tmp_path: Path, ended: str) -> None:
    hand_over(
        PenstockNode(tmp_path / "penstock", data=tmp_path / "data"),
        ApacheNode(tmp_path / "apache", data=tmp_path / "data"),
        ended,
    )


@pytest.mark.penstock_only
def test_apache_kafka_opens_a_log_that_grew_until_penstock_was_killed(
    tmp_path: Path, tools: Tools
) -> None:
    """Such a log has blocks set aside, where there is something to gain by that: no tool sees it,
    not even while the node runs."""
    data = tmp_path / "data"
    with PenstockNode(tmp_path / "penstock", data=data) as before:
        tools.check(
            "ProducerPerformance", "--bootstrap-server", before.bootstrap, "--topic", "grown",
            "--num-records", "100000", "--record-size", "100", "--throughput", "-1",
        )  # fmt: skip
        [segment] = (data / "grown-0").glob("*.log")
        assert records_in(segment, tools) == 100_000
        before.kill()
    size = segment.stat().st_size
    assert size > AHEAD_FROM
    assert records_in(segment, tools) == 100_000
    with ApacheNode(tmp_path / "apache", data=data) as after:
        ends = tools.check(
            "GetOffsetShell", "--bootstrap-server", after.bootstrap, "--topic", "grown"
        )
        assert ends == "grown:0:100000\n"
        after.stop()
    assert segment.stat().st_size == size
    assert records_in(segment, tools) == 100_000


def records_in(segment: Path, tools: Tools) -> int:
    """How many records Apache's tool finds in a file, without a complaint that ends it."""
    out = tools.check("DumpLogSegments", "--deep-iteration", "--files", str(segment))
    assert "invalid bytes" not in out, out[-500:]
    return len(re.findall(r"^\| offset: ", out, re.MULTILINE))


@pytest.mark.penstock_only
def test_records_written_after_the_hand_over_go_back_with_the_directory(
    tmp_path: Path, tools: Tools
) -> None:
    """There and back again: what Penstock added on Apache's directory, Apache reads."""
    data = tmp_path / "data"
    owners = [
        ApacheNode(tmp_path / "first", data=data),
        PenstockNode(tmp_path / "second", data=data),
        ApacheNode(tmp_path / "third", data=data),
    ]
    for number, owner in enumerate(owners):
        with owner:
            tools.check(
                "ProducerPerformance", "--bootstrap-server", owner.bootstrap, "--topic", "shared",
                "--num-records", "1000", "--record-size", "100", "--throughput", "-1",
            )  # fmt: skip
            ends = tools.check(
                "GetOffsetShell", "--bootstrap-server", owner.bootstrap, "--topic", "shared"
            )
            assert ends == f"shared:0:{1000 * (number + 1)}\n"
    [segment] = (data / "shared-0").glob("*.log")
    assert records_in(segment, tools) == 3000


def test_a_directory_outlives_its_broker(target: type[Node], tmp_path: Path, ended: str) -> None:
    """The same hand-over within one implementation: what the two above are compared with."""
    data = tmp_path / "data"
    hand_over(target(tmp_path / "before", data=data), target(tmp_path / "after", data=data), ended)

"""Apache's share consumers over three nodes, each of which is killed in turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.testing.cluster import Cluster
from tests.compat.java.programs import wait_until
from tests.compat.share_crew import Shared, verifiable

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.penstock_only]

SECONDS_MAX = 90
COUNT = 60
CONFIG = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "3000",
}


@pytest.mark.timeout(400)
def test_every_record_reaches_a_java_consumer_whoever_leads_and_coordinates(
    tmp_path: Path,
) -> None:
    """With each node goes a leader of the topic; once, the group's coordinator; and now and then
    the coordinator of what became of the records."""
    with Cluster(nodes=3, config=CONFIG, data=tmp_path / "cluster") as cluster:
        shared = Shared(cluster.bootstrap_servers, "jobs", 3, 3)
        with verifiable(shared, tmp_path, "--acknowledgement-mode", "sync") as consumer:

            def come_through(sent: int) -> None:
                shared.send(range(sent - COUNT, sent))
                wait_until(
                    lambda: set(consumer.got) >= set(range(sent)),
                    f"{sent} records are delivered",
                    SECONDS_MAX,
                    lambda: str(sorted(set(range(sent)) - set(consumer.got))),
                )

            come_through(COUNT)
            for number in (1, 2, 3):
                cluster.node(number).kill()
                come_through((number + 1) * COUNT)
                cluster.node(number).start()
            wait_until(
                lambda: consumer.acknowledged >= 4 * COUNT,
                "all are acknowledged",
                SECONDS_MAX,
                lambda: f"{consumer.acknowledged} of {4 * COUNT}",
            )

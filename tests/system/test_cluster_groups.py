"""Consumer groups go on when their coordinator dies: nothing is missed, and positions are kept.

PENSTOCK_COORDINATOR_DEATHS=20 makes it a long run.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.testing.cluster import Cluster, Node
from penstock.testing.history import History, Place, Recorder, check
from penstock.testing.history.confluent import (
    RecordingConsumer,
    offset_of,
    place_of,
    read_to_end,
)
from tests.system.senders import Sender

TOPIC, PARTITIONS = "letters", 4
SESSION_SECONDS = 3
DEATHS = int(os.environ.get("PENSTOCK_COORDINATOR_DEATHS", "1"))
CONFIG = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "broker.session.timeout.ms": f"{SESSION_SECONDS}000",
    "broker.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500},
    "consumer": {"group.protocol": "consumer"},
}
"""By the name of the group that uses it."""


class Member(threading.Thread):
    """Reads what it is assigned, and commits after each handful."""

    def __init__(self, name: str, bootstrap: str, group: str) -> None:
        super().__init__(name=name)
        self.recorder = Recorder(name)
        self.seen: set[bytes] = set()
        self._stopping = threading.Event()
        self._consumer = RecordingConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "reconnect.backoff.max.ms": 200,
                **PROTOCOLS[group],
            },
            self.recorder,
        )

    def run(self) -> None:
        self._consumer.subscribe([TOPIC])
        while not self._stopping.is_set():
            messages = self._consumer.consume(200, 0.2)
            if messages:
                self.seen.update(each.value() or b"" for each in messages)
                self._commit({place_of(each): offset_of(each) + 1 for each in messages})
        self._consumer.close()

    def _commit(self, positions: dict[Place, int]) -> None:
        try:
            self._consumer.commit(positions)
        except KafkaException:
            # The group moves on without this commit: whoever has the partition reads it again.
            time.sleep(0.05)

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)
        assert not self.is_alive()


class Group:
    """Two members of a group."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name = name
        self.members = [Member(f"{name}-{number}", bootstrap, name) for number in range(2)]
        for each in self.members:
            each.start()

    @property
    def read(self) -> int:
        """How many different records any member has read."""
        return len(set().union(*(each.seen for each in self.members)))

    def coordinator(self, cluster: Cluster) -> Node:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        described = admin.describe_consumer_groups([self.name], request_timeout=30)
        return cluster.node(described[self.name].result().coordinator.id)


def wait_until_read(feed: Sender, groups: list[Group], more: int) -> None:
    """Until each group has read so many more records than now."""
    for group in groups:
        wait_for(feed, group, group.read + more)


def wait_for(feed: Sender, group: Group, count: int) -> None:
    deadline = time.monotonic() + 60
    while group.read < count:
        assert time.monotonic() < deadline, f"{group.name} read {group.read} records, not {count}"
        assert not feed.failures
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(120 + 90 * DEATHS)
def test_groups_outlive_their_coordinators(tmp_path: Path) -> None:
    with Cluster(nodes=3, config=CONFIG, data=tmp_path / "cluster") as cluster:
        bootstrap = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result()
        places = [Place(TOPIC, number) for number in range(PARTITIONS)]
        feed = Sender("feed", bootstrap, places, pause=0.05, padding=1)
        feed.start()
        groups = [Group(name, bootstrap) for name in PROTOCOLS]
        wait_until_read(feed, groups, 100)
        for group in groups * DEATHS:
            victim = group.coordinator(cluster)
            victim.kill()
            time.sleep(SESSION_SECONDS)
            wait_until_read(feed, groups, 200)
            assert group.coordinator(cluster) is not victim
            victim.start()
        wait_until_read(feed, groups, 100)
        feed.finish(60)
        for group in groups:
            wait_for(feed, group, feed.acknowledged)
            for member in group.members:
                member.stop()
        judge(bootstrap, places, feed, groups)


def judge(bootstrap: str, places: list[Place], feed: Sender, groups: list[Group]) -> None:
    """By what all have noted, the groups' positions now, and all that is in the topic."""
    recorders = [feed.recorder]
    for group in groups:
        recorders += [each.recorder for each in group.members]
        recorders.append(Recorder(f"asking {group.name}"))
        config = {"bootstrap.servers": bootstrap, "group.id": group.name}
        asking = RecordingConsumer(config, recorders[-1])
        asking.ask_committed(places)
        asking.close()
    recorders.append(Recorder("later"))
    read_to_end({"bootstrap.servers": bootstrap}, places, recorders[-1])
    assert not feed.failures
    history = History.of(*recorders)
    check(history)
    for group in groups:
        committed = [each for each in history.commits if each.is_ok and each.group == group.name]
        assert len(committed) > 10

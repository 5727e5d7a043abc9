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

TOPIC, GROUP, PARTITIONS = "letters", "readers", 4
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


class Member(threading.Thread):
    """Reads what it is assigned, and commits after each handful."""

    def __init__(self, name: str, bootstrap: str, protocol: str) -> None:
        super().__init__(name=name)
        self.recorder = Recorder(name)
        self.seen: set[bytes] = set()
        self.commits = 0
        self._stopping = threading.Event()
        self._consumer = RecordingConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "reconnect.backoff.max.ms": 200,
                **PROTOCOLS[protocol],
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
            self.commits += 1
        except KafkaException:
            # The group moves on without this commit: whoever has the partition reads it again.
            time.sleep(0.05)

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)
        assert not self.is_alive()


def coordinator(cluster: Cluster) -> Node:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    found = admin.describe_consumer_groups([GROUP], request_timeout=30)[GROUP].result()
    return cluster.node(found.coordinator.id)


def wait_until_read(feed: Sender, members: list[Member], more: int) -> None:
    """Until the members have read so many more records than now."""
    target = len(set().union(*(each.seen for each in members))) + more
    deadline = time.monotonic() + 60
    while len(set().union(*(each.seen for each in members))) < target:
        assert time.monotonic() < deadline, "the members read nothing for a minute"
        assert not feed.failures
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(120 + 60 * DEATHS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_outlives_its_coordinator(protocol: str, tmp_path: Path) -> None:
    with Cluster(nodes=3, config=CONFIG, data=tmp_path / "cluster") as cluster:
        bootstrap = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result()
        places = [Place(TOPIC, number) for number in range(PARTITIONS)]
        feed = Sender("feed", bootstrap, places, pause=0.05, padding=1)
        members = [Member(f"member-{number}", bootstrap, protocol) for number in range(2)]
        feed.start()
        for each in members:
            each.start()
        wait_until_read(feed, members, 100)
        for _ in range(DEATHS):
            victim = coordinator(cluster)
            victim.kill()
            time.sleep(SESSION_SECONDS)
            wait_until_read(feed, members, 300)
            assert coordinator(cluster) is not victim
            victim.start()
            wait_until_read(feed, members, 100)
        feed.finish(60)
        wait_for_all(feed, members)
        for each in members:
            each.stop()
        history = judge(bootstrap, places, feed, members)
    committed = [commit for commit in history.commits if commit.is_ok]
    assert len(committed) > 10 * DEATHS


def wait_for_all(feed: Sender, members: list[Member]) -> None:
    deadline = time.monotonic() + 60
    while (left := feed.acknowledged - len(set().union(*(it.seen for it in members)))) > 0:
        assert time.monotonic() < deadline, f"{left} records are never read"
        time.sleep(0.05)


def judge(bootstrap: str, places: list[Place], feed: Sender, members: list[Member]) -> History:
    """What everybody noted, the group's positions now, and all that is in the topic."""
    later = Recorder("later")
    asking = RecordingConsumer({"bootstrap.servers": bootstrap, "group.id": GROUP}, later)
    asking.ask_committed(places)
    asking.close()
    read_to_end({"bootstrap.servers": bootstrap}, places, later)
    assert not feed.failures
    history = History.of(feed.recorder, later, *(each.recorder for each in members))
    check(history)
    return history

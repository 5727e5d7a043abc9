"""A share group over three nodes that fail: everything is done with, and nothing done comes again.

Members take, accept, give back, keep for longer and vanish, while nodes are killed one after
another: with them go leaders of the topic, share coordinators and group coordinators.

PENSTOCK_SHARE_KILLS=50 makes it a long run; PENSTOCK_TEST_SEED replays its choices.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.testing.cluster import Cluster
from penstock.testing.history import History, Place, Recorder, check, shared_out
from penstock.testing.history.confluent import read_to_end
from tests.system.senders import Sender
from tests.system.share_members import Members

KILLS = int(os.environ.get("PENSTOCK_SHARE_KILLS", "3"))
TOPIC, GROUP, PARTITIONS, MEMBERS = "jobs", "workers", 3, 3
LOCK_SECONDS = 2
SESSION_SECONDS = 3
CONFIG = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "6",
    "share.coordinator.state.topic.num.partitions": "6",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "broker.session.timeout.ms": f"{SESSION_SECONDS}000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": f"{2 * SESSION_SECONDS}000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": f"{LOCK_SECONDS}000",
    "group.share.max.delivery.count.limit": "10",
    "group.share.delivery.count.limit": "10",
}


@pytest.mark.slow
@pytest.mark.timeout(150 + 30 * KILLS)
def test_every_record_is_accepted_and_none_comes_again_whichever_node_fails(
    tmp_path: Path,
) -> None:
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", time.time_ns() % 1_000_000))
    print(f"PENSTOCK_TEST_SEED={seed} makes the same choices")
    chance = random.Random(seed)
    with Cluster(nodes=3, config=CONFIG, data=tmp_path / "cluster") as cluster:
        bootstrap = cluster.bootstrap_servers
        prepare(bootstrap)
        places = [Place(TOPIC, number) for number in range(PARTITIONS)]
        feed = Sender("feed", bootstrap, places, pause=0.05, padding=50)
        members = Members(bootstrap, GROUP, TOPIC, MEMBERS, chance)
        feed.start()
        members.start()
        for number in chance.sample((1, 2, 3), 3) * (KILLS // 3) + [1, 2, 3][: KILLS % 3]:
            goes_on(members)
            cluster.node(number).kill()
            time.sleep(chance.choice((0.0, SESSION_SECONDS + 1.0)))
            cluster.node(number).start()
        goes_on(members)
        members.accept_all()
        feed.finish(60)
        until_done(members, feed.acknowledged)
        until_quiet(members)
        members.stop(60)
        reader = Recorder("reader")
        read_to_end({"bootstrap.servers": bootstrap}, places, reader)
    assert feed.failures == []
    assert members.problems == []
    history = History.of(feed.recorder, reader, *members.recorders)
    check(history, shared_out(GROUP, TOPIC))
    print(f"{feed.acknowledged} records, {KILLS} kills, {dict(members.words)}")
    assert members.words["RELEASE"] > 0


def prepare(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
    begin_at_the_beginning(bootstrap, GROUP)


def begin_at_the_beginning(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    first = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    group = ConfigResource(ResourceType.GROUP, name, incremental_configs=[first])
    admin.incremental_alter_configs([group])[group].result(30)


def goes_on(members: Members, count: int = 50, seconds_max: float = 60) -> None:
    until_done(members, len(members.done) + count, seconds_max)


def until_done(members: Members, count: int, seconds_max: float = 60) -> None:
    deadline = time.monotonic() + seconds_max
    while len(members.done) < count:
        told = f"{len(members.done)} of {count} done; {dict(members.words)}; {members.problems}"
        assert time.monotonic() < deadline, told
        time.sleep(0.05)


def until_quiet(members: Members, seconds_max: float = 60) -> None:
    """Nothing comes back any more: not what was accepted without an answer, either."""
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < members.busy_at + LOCK_SECONDS + 2:
        assert time.monotonic() < deadline, "records come back on and on"
        time.sleep(0.1)

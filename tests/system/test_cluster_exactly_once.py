"""Read, process, write in transactions over three nodes, while nodes and workers fail: each once.

Nodes are killed and come back at once or after the others have taken over, all of them die
together, one stops in good order, and one is held so long that it is taken for dead, and goes on
where it stopped.

PENSTOCK_EOS_KILLS=50 makes it a long run, in more languages; PENSTOCK_TEST_SEED replays its
choices.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing.cluster import Cluster
from penstock.testing.history import History, Place, Recorder, check, exactly_once
from penstock.testing.history.confluent import read_to_end
from tests.compat.eos import fleet
from tests.compat.eos.fleet import Fleet
from tests.system.senders import Sender
from tests.system.watching import Watch

KILLS = int(os.environ.get("PENSTOCK_EOS_KILLS", "2"))
PARTITIONS = 4
WORKERS = ["worker-0", "worker-1"]
SOURCE, SINK, GROUP = "inputs", "outputs", "workers"
SESSION_SECONDS = 3
CONFIG = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
    "broker.session.timeout.ms": f"{SESSION_SECONDS}000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": f"{2 * SESSION_SECONDS}000",
    # With the new protocol it is the broker that says when a silent member is taken for dead.
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}

# librdkafka conducts transactions in version 1, and Apache's own client in version 2.
LANGUAGES: list[Any] = [
    fleet.by_the_new_protocol(fleet.confluent),
    pytest.param(fleet.java, marks=pytest.mark.java),
]
if "PENSTOCK_EOS_KILLS" in os.environ:
    LANGUAGES += [
        fleet.confluent,
        pytest.param(fleet.franz, marks=pytest.mark.go),
        pytest.param(fleet.by_the_new_protocol(fleet.java), marks=pytest.mark.java),
    ]


@pytest.mark.slow
@pytest.mark.timeout(180 + 40 * KILLS)
@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.__name__)
def test_each_input_is_in_the_output_once_whichever_node_fails(
    language: fleet.Language, tmp_path: Path
) -> None:
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", time.time_ns() % 1_000_000))
    print(f"PENSTOCK_TEST_SEED={seed} makes the same choices")
    with Cluster(nodes=3, config=CONFIG, data=tmp_path / "cluster") as cluster:
        bootstrap = cluster.bootstrap_servers
        places = create(bootstrap)
        words = [bootstrap, SOURCE, SINK, GROUP]
        workers = Fleet(language(tmp_path), words, WORKERS, tmp_path)
        feed = Sender("feed", bootstrap, places[SOURCE], pause=0.05, padding=1)
        watch = Watch(bootstrap, places[SINK], workers)
        feed.start()
        workers.start()
        try:
            watch.wait_for(1)
            for strike in strikes(random.Random(seed)):
                strike(cluster, workers)
                watch.wait_for(watch.found + 1)
            workers.wake()
            feed.finish(60)
            watch.wait_for(feed.acknowledged)
        finally:
            workers.stop()
        watch.close()
        reader = Recorder("reader")
        for committed in (True, False):
            read_to_end(
                {"bootstrap.servers": bootstrap},
                [*places[SOURCE], *places[SINK]],
                reader,
                committed=committed,
            )
    assert not feed.failures
    history = History.read(*workers.histories) + History.of(feed.recorder, watch.recorder, reader)
    check(history, exactly_once(SOURCE, SINK, lambda value: value.removeprefix("done ")))
    print(
        f"{feed.acknowledged} inputs, {len(history.transactions)} transactions, {KILLS} strikes, "
        f"{workers.lives} workers' lives, each input once in the output"
    )


def create(bootstrap: str) -> dict[str, list[Place]]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(name, PARTITIONS, 3) for name in (SOURCE, SINK)]
    for created in admin.create_topics(wanted).values():
        created.result()
    return {
        topic: [Place(topic, number) for number in range(PARTITIONS)] for topic in (SOURCE, SINK)
    }


Strike = Callable[[Cluster, Fleet], None]


def strikes(chance: random.Random) -> list[Strike]:
    """As many as wanted, each kind as often as the others, in any order."""
    kinds: list[Callable[[random.Random], Strike]] = []
    while len(kinds) < KILLS:
        kinds += chance.sample((kill, hold, restart, kill_all, kill_with_worker, freeze_worker), 6)
    return [after_a_while(chance, make(chance)) for make in kinds[:KILLS]]


def after_a_while(chance: random.Random, strike: Strike) -> Strike:
    seconds = chance.uniform(0, 1.5)

    def act(cluster: Cluster, workers: Fleet) -> None:
        time.sleep(seconds)
        workers.wake()
        strike(cluster, workers)

    return act


def kill(chance: random.Random) -> Strike:
    """One node dies, and comes back before or after others have taken over."""
    number = chance.randrange(1, 4)
    seconds = chance.choice((0.0, SESSION_SECONDS + 1.0))

    def act(cluster: Cluster, _: Fleet) -> None:
        cluster.node(number).kill()
        time.sleep(seconds)
        cluster.node(number).start()

    return act


def hold(chance: random.Random) -> Strike:
    """One node does nothing until it is taken for dead, and goes on as if nothing had been."""
    number = chance.randrange(1, 4)

    def act(cluster: Cluster, _: Fleet) -> None:
        cluster.node(number).pause()
        time.sleep(SESSION_SECONDS + 1.5)
        cluster.node(number).resume()

    return act


def restart(chance: random.Random) -> Strike:
    """One node hands over, stops and comes back."""
    number = chance.randrange(1, 4)

    def act(cluster: Cluster, _: Fleet) -> None:
        cluster.node(number).restart()

    return act


def kill_all(_: random.Random) -> Strike:
    """All nodes die at once."""

    def act(cluster: Cluster, _: Fleet) -> None:
        cluster.kill()
        cluster.start()

    return act


def kill_with_worker(chance: random.Random) -> Strike:
    """A node and a worker die together."""
    number, worker = chance.randrange(1, 4), chance.randrange(len(WORKERS))

    def act(cluster: Cluster, workers: Fleet) -> None:
        cluster.node(number).kill()
        workers.kill(worker)
        cluster.node(number).start()

    return act


def freeze_worker(chance: random.Random) -> Strike:
    """A worker is taken for dead, and comes back when another one has its place."""
    worker = chance.randrange(len(WORKERS))

    def act(_: Cluster, workers: Fleet) -> None:
        workers.freeze(worker)

    return act

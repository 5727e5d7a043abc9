"""Java's and Go's own share consumers in one group, while nodes and workers are killed: judged.

Members of both languages take notes of every record that they are given, and of what became of
each word they said about it. All of them together have to be what the protocol promises.

PENSTOCK_SHARE_KILLS=50 makes it a long run; PENSTOCK_TEST_SEED replays its choices.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli import shares
from penstock.cli.wire_cluster import Cluster as Asked
from penstock.testing.cluster import Cluster
from penstock.testing.history import (
    Deliver,
    History,
    Place,
    Recorder,
    Settle,
    check,
    find,
    shared_out,
)
from penstock.testing.history.checks.shares import FINAL, MISSING, SETTLED, settled_stays_settled
from penstock.testing.history.confluent import read_to_end
from tests.compat.share_crew import Shared
from tests.compat.shares.crew import EACH, Crew, commands
from tests.system.senders import Sender
from tests.system.test_cluster_shares import CONFIG, SESSION_SECONDS

KILLS = int(os.environ.get("PENSTOCK_SHARE_KILLS", "3"))
TOPIC, PARTITIONS = "jobs", 3
DELIVERIES_MAX = int(CONFIG["group.share.delivery.count.limit"])
ALONE = {
    "min.insync.replicas": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
}

pytestmark = [pytest.mark.java, pytest.mark.go, pytest.mark.slow, pytest.mark.penstock_only]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return commands(tmp_path_factory.mktemp("workers"))


@pytest.mark.timeout(200 + 40 * KILLS)
@pytest.mark.parametrize("nodes", [1, 3])
def test_java_and_go_are_done_with_every_record_and_get_none_again_whatever_is_killed(
    nodes: int, programs: dict[str, list[str]], tmp_path: Path
) -> None:
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", time.time_ns() % 1_000_000))
    print(f"PENSTOCK_TEST_SEED={seed} makes the same choices")
    config = CONFIG | (ALONE if nodes == 1 else {})
    with Cluster(nodes=nodes, config=config, data=tmp_path / "cluster") as cluster:
        bootstrap = cluster.bootstrap_servers
        shared = Shared(bootstrap, TOPIC, PARTITIONS, nodes)
        places = [Place(TOPIC, number) for number in range(PARTITIONS)]
        feed = Sender("feed", bootstrap, places, pause=0.05, padding=50)
        crew = Crew(programs, shared, seed, tmp_path)
        feed.start()
        crew.start()
        try:
            strike(random.Random(seed), cluster, nodes, crew)
            feed.finish(60)
            crew.wait_for(lambda: nothing_is_left(shared), "the group is done with everything")
        finally:
            crew.stop()
        reader = Recorder("reader")
        read_to_end({"bootstrap.servers": bootstrap}, places, reader)
    assert feed.failures == []
    history = crew.history + History.of(feed.recorder, reader)
    check(history, shared_out(shared.group, TOPIC, DELIVERIES_MAX))
    told = Counter(f"{each.word} {each.outcome}" for each in history.settlements)
    print(
        f"{feed.acknowledged} records, {KILLS} kills, {crew.lives} workers' lives, "
        f"{len(history.deliveries)} deliveries, {dict(told)}"
    )
    for squad in crew.squads:
        assert is_found_if_it_was_no_release(history, squad.language)
        assert is_found_if_nobody_accepted(history, squad.language, shared.group)


def strike(chance: random.Random, cluster: Cluster, nodes: int, crew: Crew) -> None:
    """Kill each node in turn, and with it a worker; and now and then one only seems to be dead."""
    order = chance.sample(range(1, nodes + 1), nodes)
    crew.go_on(50)
    for count in range(KILLS):
        node = cluster.node(order[count % nodes])
        victim, other = crew.squads[count % 2].fleet, crew.squads[(count + 1) % 2].fleet
        node.kill()
        victim.kill(chance.randrange(EACH))
        if chance.random() < 0.5:
            other.freeze(chance.randrange(EACH))
        time.sleep(chance.choice((0.0, SESSION_SECONDS + 1.0)))
        node.start()
        crew.go_on(50)
        other.wake()


def nothing_is_left(shared: Shared) -> bool:
    with Asked(shared.bootstrap, None, 30) as cluster:
        lines = shares.measure(cluster, shared.group)
    return len(lines) == PARTITIONS and all(line["lag"] == 0 for line in lines)


def is_found_if_it_was_no_release(history: History, language: str) -> bool:
    """A worker of this language gave a record back, and it came again: told as if it had accepted
    it, and been heard, before that. Later it could have spoken too late, or without knowing."""
    again: defaultdict[tuple[Place, int], list[Deliver]] = defaultdict(list)
    for each in history.deliveries:
        again[spot(each)].append(each)
    for released in history.settlements:
        if released.client.startswith(language) and released.word == "release" and released.is_ok:
            later = [it for it in again[spot(released)] if it.deliveries > released.deliveries]
            if later:
                first = min(it.began for it in later)
                with told_as(released, "accept", before=first):
                    return any(
                        verdict.name == SETTLED and released in verdict.operations
                        for verdict in find(history, settled_stays_settled)
                    )
    return False


def is_found_if_nobody_accepted(history: History, language: str, group: str) -> bool:
    """A worker of this language alone was done with a record: it is told to have kept it."""
    final: defaultdict[tuple[Place, int], list[Settle]] = defaultdict(list)
    for each in history.settlements:
        if each.word in FINAL and each.may_have_happened:
            final[spot(each)].append(each)
    alone = next(
        said[0] for said in final.values() if len(said) == 1 and said[0].client.startswith(language)
    )
    with told_as(alone, "renew"):
        found = find(history, shared_out(group, TOPIC, DELIVERIES_MAX))
    return [(each.name, each.place, each.offset) for each in found] == [(MISSING, *spot(alone))]


@contextlib.contextmanager
def told_as(settled: Settle, word: str, before: int | None = None) -> Iterator[None]:
    """As if the word had been another one, and said before a moment."""
    said = settled.word, settled.began, settled.ended
    settled.word = word
    if before is not None:
        settled.began = settled.ended = before - 1
    try:
        yield
    finally:
        settled.word, settled.began, settled.ended = said


def spot(each: Deliver | Settle) -> tuple[Place, int]:
    return each.place, each.offset

"""Read, process, write in transactions, while nodes and workers are killed: each record once.

Some workers only seem to be dead, and come back when another one has taken their place.

PENSTOCK_EOS_KILLS=50 makes it a long run; PENSTOCK_TEST_SEED replays its choices.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.testing.history import History, Place, Recorder, check, exactly_once
from penstock.testing.history.confluent import read_to_end
from tests.compat.eos import fleet
from tests.compat.eos.fleet import Fleet
from tests.oracle import wire
from tests.oracle.nodes import Node
from tests.system.senders import Sender
from tests.system.watching import Watch

KILLS = int(os.environ.get("PENSTOCK_EOS_KILLS", "4"))
PARTITIONS = 4
WORKERS = ["worker-0", "worker-1"]
SOURCE, SINK, GROUP = "inputs", "outputs", "workers"
# With the new protocol it is the broker that says when a silent member is taken for dead.
SESSIONS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
EXAMPLE = Path(__file__).parents[2] / "examples" / "read_process_write.py"


@pytest.mark.slow
@pytest.mark.timeout(120 + 30 * KILLS)
@pytest.mark.parametrize(
    "language",
    [
        fleet.confluent,
        pytest.param(fleet.franz, marks=pytest.mark.go),
        pytest.param(fleet.java, marks=pytest.mark.java),
        fleet.by_the_new_protocol(fleet.confluent),
        pytest.param(fleet.by_the_new_protocol(fleet.java), marks=pytest.mark.java),
    ],
    ids=lambda language: language.__name__,
)
def test_each_input_is_in_the_output_once_whatever_is_killed(
    language: fleet.Language, make_node: Callable[..., Node], tmp_path: Path
) -> None:
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", time.time_ns() % 1_000_000))
    print(f"PENSTOCK_TEST_SEED={seed} makes the same choices")
    chance = random.Random(seed)
    node = make_node(config=SESSIONS)
    node.start()
    places = create(node)
    workers = Fleet(language(tmp_path), [node.bootstrap, SOURCE, SINK, GROUP], WORKERS, tmp_path)
    feed = Sender("feed", node.bootstrap, places[SOURCE], pause=0.05, padding=1)
    watch = Watch(node.bootstrap, places[SINK], workers)
    feed.start()
    workers.start()
    try:
        watch.wait_for(1)
        for _ in range(KILLS):
            strike(chance, node, workers)
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
            {"bootstrap.servers": node.bootstrap},
            [*places[SOURCE], *places[SINK]],
            reader,
            committed=committed,
        )
    history = History.read(*workers.histories) + History.of(feed.recorder, watch.recorder, reader)
    check(history, exactly_once(SOURCE, SINK, lambda value: value.removeprefix("done ")))
    print(
        f"{feed.acknowledged} inputs, {len(history.transactions)} transactions, {KILLS} kills, "
        f"{workers.lives} workers' lives, each input once in the output"
    )


def test_the_example_misses_and_doubles_nothing() -> None:
    told = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=180, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert "missing 0, doubled 0" in told.stdout
    assert told.stderr.count("with -9") == 2


def create(node: Node) -> dict[str, list[Place]]:
    with wire.Wire(node.port) as client:
        for topic in (SOURCE, SINK):
            assert wire.create_topic(client, topic, PARTITIONS) == 0
    return {
        topic: [Place(topic, number) for number in range(PARTITIONS)] for topic in (SOURCE, SINK)
    }


def strike(chance: random.Random, node: Node, workers: Fleet) -> None:
    """Kill the node, or a worker, or both at a time; or take a worker for dead that is not."""
    time.sleep(chance.uniform(0, 1.5))
    workers.wake()
    victim = chance.choice(("node", "worker", "both", "zombie"))
    number = chance.randrange(len(WORKERS))
    if victim == "zombie":
        workers.freeze(number)
        return
    if victim != "worker":
        node.kill()
    if victim != "node":
        workers.kill(number)
    if victim != "worker":
        node.start()

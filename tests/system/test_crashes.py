"""kill -9 at random moments under load, again and again."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest

from penstock.testing.history import History, Place, Recorder, check
from penstock.testing.history.confluent import read_to_end
from tests.oracle import wire
from tests.oracle.nodes import Node
from tests.system.senders import Sender

# `make endure` plays fifty. Apache Kafka takes ten seconds to come back: give it fewer.
CRASHES = int(os.environ.get("PENSTOCK_TEST_CRASHES", "8"))
CODECS = {"plain": "none", "squeezed": "lz4", "pressed": "zstd"}
PARTITIONS = 3


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_acknowledged_record_is_lost_or_doubled_by_crashes(
    make_node: Callable[..., Node],
) -> None:
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", time.time_ns() % 1_000_000))
    print(f"PENSTOCK_TEST_SEED={seed} replays the same moments")
    chance = random.Random(seed)
    node = make_node()
    node.start()
    places = create(node)
    senders = [
        Sender(
            f"{topic}-{number}",
            node.bootstrap,
            [place for place in places if place.topic == topic],
            codec=codec,
        )
        for number in range(2)
        for topic, codec in CODECS.items()
    ]
    for sender in senders:
        sender.start()
    try:
        wait_for_progress(senders, 0)
        for _ in range(CRASHES):
            crash(node, chance, senders)
    finally:
        if not node.running:
            node.start()
        for sender in senders:
            sender.finish(60)
    assert not any(sender.failures for sender in senders), [s.failures for s in senders]
    reader = Recorder("reader")
    found = read_to_end({"bootstrap.servers": node.bootstrap, "check.crcs": True}, places, reader)
    check(History.of(reader, *(sender.recorder for sender in senders)))
    for place, records in found.items():
        # All of these producers are waited for: not even a record of unknown fate is missing.
        assert sorted(records) == list(range(len(records))), f"{place} has holes"
    print(f"{acknowledged(senders)} records survived {CRASHES} crashes")


def create(node: Node) -> list[Place]:
    with wire.Wire(node.port) as client:
        for topic in CODECS:
            # The smallest segments there are, so that crashes also hit rolls.
            config = {"segment.bytes": "1048576"}
            assert wire.create_topic(client, topic, PARTITIONS, config) == 0
    return [Place(topic, number) for topic in CODECS for number in range(PARTITIONS)]


def crash(node: Node, chance: random.Random, senders: list[Sender]) -> None:
    """Kill, sometimes kill again while it recovers, and wait until it takes records again."""
    time.sleep(chance.uniform(0, 0.8))
    node.kill()
    if chance.random() < 0.2:
        node.launch()
        time.sleep(chance.uniform(0, 0.6))
        node.kill()
    before = acknowledged(senders)
    node.start()
    wait_for_progress(senders, before)


def wait_for_progress(senders: list[Sender], before: int) -> None:
    """A broker that comes back but takes nothing has not come back."""
    deadline = time.monotonic() + 60
    while acknowledged(senders) <= before:
        assert time.monotonic() < deadline, "nothing was acknowledged for a minute"
        assert not any(sender.failures for sender in senders), [s.failures for s in senders]
        time.sleep(0.01)


def acknowledged(senders: list[Sender]) -> int:
    return sum(sender.acknowledged for sender in senders)

"""A pipeline from topic to topic, while driver, executors and broker are killed: each record once.

PENSTOCK_PIPELINE_KILLS=12 makes it a long run; PENSTOCK_TEST_SEED replays its choices.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.testing import Broker
from tests.pipeline.killing import Life, Victims
from tests.pipeline.readers import TopicCount
from tests.pipeline.sinks.topic_scene import create, read_all
from tests.pipeline.spark.cluster import Cluster

KILLS = int(os.environ.get("PENSTOCK_PIPELINE_KILLS", "2"))
BATCH = 1_500
PER_KILL = 3 * BATCH
KEYS = 50
PARTITIONS = 4
SOURCE, SINK = "numbers", "copies"

FILE = f"""\
name: copy
bootstrap: BOOTSTRAP
sources:
  {SOURCE}:
    topic: {SOURCE}
    batch_records_max: {BATCH}
sinks:
  out:
    topic: {SINK}
    key: _key
    value: string
on_error:
  policy: retry
"""


@pytest.mark.slow
@pytest.mark.timeout(900 + 120 * KILLS)
def test_each_record_is_in_the_topic_once_whatever_is_killed(
    spark_cluster: Cluster, tmp_path: Path
) -> None:
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", time.time_ns() % 1_000_000))
    print(f"PENSTOCK_TEST_SEED={seed} makes the same choices")
    chance = random.Random(seed)
    count = PER_KILL * (KILLS + 1)
    file = tmp_path / "copy.yml"
    with Broker(data=tmp_path / "broker") as broker:
        feed(broker.bootstrap_servers, count)
        file.write_text(FILE.replace("BOOTSTRAP", broker.bootstrap_servers))
        look = TopicCount(broker.bootstrap_servers, SINK, PARTITIONS)
        life = Life(tmp_path, file, spark_cluster)
        victims = Victims(chance, life, broker, spark_cluster)
        try:
            for number in range(KILLS):
                life.wait_for(look, PER_KILL * number + 1)
                # Somewhere in a batch, between two, or while Spark is still starting.
                time.sleep(chance.uniform(0, 2))
                victims.kill_one()
            life.wait_for(look, count)
        finally:
            life.end()
            look.close()
        print(f"killed: {dict(victims.killed)}; the pipeline was started {life.count} times")
        check(broker.bootstrap_servers, count)


def feed(bootstrap: str, count: int) -> None:
    """Numbers, each with one of the keys, in order."""
    create(bootstrap, SOURCE, PARTITIONS)
    create(bootstrap, SINK, PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(SOURCE, str(number), f"key {number % KEYS}")
        producer.poll(0)
    assert producer.flush(60) == 0


def check(bootstrap: str, count: int) -> None:
    """Every number once, and in order for each key."""
    records = read_all(bootstrap, SINK)
    assert len(records) == count
    assert {int(each.value()) for each in records} == set(range(count))
    by_key: dict[bytes, list[int]] = defaultdict(list)
    for each in records:
        by_key[each.key()].append(int(each.value()))
    assert len(by_key) == KEYS
    for key, numbers in by_key.items():
        assert numbers == sorted(numbers), f"{key!r} lost its order"

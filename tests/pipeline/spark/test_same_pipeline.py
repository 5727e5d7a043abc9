"""One pipeline file, on this machine and on a cluster: the same comes out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from penstock.testing import Broker
from tests.pipeline.spark.cluster import Cluster

ORDERS = 200
SECONDS_MAX = 500.0

PIPELINE = """\
name: ${NAME}
bootstrap: ${BROKERS}
sources:
  orders:
    topic: ${ORDERS}
    value: {format: json, schema: "id long, item string, amount double"}
steps:
  - filter: amount > 10
  - python: pricing.py:with_tax
    as: priced
sinks:
  priced: {topic: "${NAME}.priced", key: item}
  lake: {parquet: lake, from: priced}
on_error: dlq
"""
PRICING = """\
from pyspark.sql.functions import udf


def with_tax(rows):
    @udf("double")
    def taxed(amount):
        return round(amount * 1.2, 2)

    return rows.withColumn("total", taxed("amount"))
"""

Outcome = tuple[list[tuple[str, str]], list[tuple[int, float]], int]
"""Keys and values of the topic, ids and totals of the lake, and how many dead letters."""


def produce_orders(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(ORDERS):
        order = {"id": number, "item": f"item {number % 7}", "amount": number / 4}
        producer.produce(topic, json.dumps(order))
    producer.produce(topic, b"no order at all")
    assert producer.flush(30) == 0


def run(
    folder: Path, broker: Broker, orders: str, name: str, master: str, *settings: str
) -> Outcome:
    """Run the pipeline to its end in a folder of its own: what came out."""
    folder.mkdir()
    (folder / "orders.yml").write_text(PIPELINE)
    (folder / "pricing.py").write_text(PRICING)
    command = [sys.executable, "-m", "penstock", "pipeline", "run", "orders.yml", "--once"]
    done = subprocess.run(
        [*command, "--master", master, *(f"--conf={each}" for each in settings)],
        cwd=folder,
        env={
            **os.environ,
            "NAME": name,
            "ORDERS": orders,
            "BROKERS": broker.bootstrap_servers,
            "XDG_STATE_HOME": str(folder / "state"),
        },
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    values = sorted(records_of(broker, f"{name}.priced"))
    return values, lake_of(folder / "lake"), len(records_of(broker, f"{name}.dlq"))


def records_of(broker: Broker, topic: str) -> list[tuple[str, str]]:
    """All committed records of a topic, as key and value."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "same",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found, ended, partitions = [], 0, len(consumer.list_topics(topic, 30).topics[topic].partitions)
    while ended < partitions:
        message = consumer.poll(30)
        assert message is not None, f"{topic} has not ended"
        if message.error():
            ended += 1
        else:
            found.append(((message.key() or b"").decode(), (message.value() or b"").decode()))
    consumer.close()
    return found


def lake_of(folder: Path) -> list[tuple[int, float]]:
    import pyarrow.dataset as dataset  # type: ignore[import-untyped]

    rows = dataset.dataset(folder, format="parquet", exclude_invalid_files=True).to_table()
    return sorted(zip(rows["id"].to_pylist(), rows["total"].to_pylist(), strict=True))


@pytest.mark.slow
@pytest.mark.timeout(1100)  # two runs, on two cores that may be busy
def test_a_pipeline_does_the_same_on_this_machine_and_on_a_cluster(
    spark_cluster: Cluster, pipeline_broker: Broker, topic: str, tmp_path: Path
) -> None:
    produce_orders(pipeline_broker, topic)
    settings = [f"{key}={value}" for key, value in spark_cluster.settings.items()]
    here = run(
        tmp_path / "here", pipeline_broker, topic, f"{topic}.here", "local[2]",
        "spark.driver.memory=700m",
    )  # fmt: skip
    there = run(
        tmp_path / "there", pipeline_broker, topic, f"{topic}.there", spark_cluster.url, *settings
    )
    values, lake, letters = here
    assert [number for number, _ in lake] == list(range(41, ORDERS))
    assert all(total == round(number / 4 * 1.2, 2) for number, total in lake)
    assert len(values) == len(lake)
    assert letters == 1
    assert there == here

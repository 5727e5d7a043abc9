"""Topics into Parquet, Iceberg and a database, and files into Parquet and a topic, while all of it
is killed: each row once.

PENSTOCK_PIPELINE_KILLS=10 and above makes it a long run, each sink by itself, on a cluster whose
executors are killed too; PENSTOCK_TEST_SEED replays its choices.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import Producer

from penstock.testing import Broker
from tests.pipeline.killing import Life, Victims
from tests.pipeline.postgres import PASSWORD, USER, Postgres
from tests.pipeline.readers import TopicCount, iceberg_count, parquet_count, table_count
from tests.pipeline.sinks.lake_scene import lake_rows
from tests.pipeline.sinks.topic_scene import create, read_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KILLS = int(os.environ.get("PENSTOCK_PIPELINE_KILLS", "1"))
LONG = KILLS >= 10
BATCH = 400
PER_KILL = 3 * BATCH if LONG else 2 * BATCH
PARTITIONS = 3

SOURCES = {
    "numbers": "{topic: numbers, value: {format: json, schema: 'n long'}, "
    f"batch_records_max: {BATCH}}}",
    "lines": "{files: lines.log, growing: true, format: {format: json, schema: 'n long'}, "
    f"batch_bytes_max: {BATCH * 12}}}",
}
SINKS = {
    "parquet": "{from: numbers, parquet: lake, partition_by: [n % 3 AS third]}",
    "files": "{from: lines, parquet: from-files}",
    "files_topic": "{from: lines, topic: from-files, value: {format: json}}",
    "iceberg": "{from: numbers, iceberg: shop.numbers, warehouse: tables}",
    "jdbc": "{from: numbers, jdbc: 'URL', table: TABLE, user: USER, password: '${PASSWORD}', "
    "key: [n]}",
    "jdbc_append": "{from: numbers, jdbc: 'URL', table: TABLE_append, user: USER, "
    "password: '${PASSWORD}'}",
}


class Reader(NamedTuple):
    """Somebody who reads a sink and knows nothing of who wrote it."""

    found: Callable[[], int]
    numbers: Callable[[], list[int]]


TOGETHER = [("parquet", "iceberg", "jdbc", "jdbc_append"), ("files", "files_topic")]
APART = [("parquet",), ("files", "files_topic"), ("iceberg",), ("jdbc", "jdbc_append")]


@pytest.mark.slow
@pytest.mark.timeout(600 + 300 * KILLS)
@pytest.mark.parametrize("chosen", APART if LONG else TOGETHER, ids=lambda names: "-".join(names))
def test_each_row_is_there_once_whatever_is_killed(
    chosen: tuple[str, ...],
    tmp_path: Path,
    postgres: Postgres,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", time.time_ns() % 1_000_000))
    print(f"PENSTOCK_TEST_SEED={seed} makes the same choices")
    chance = random.Random(seed)
    rows = PER_KILL * (KILLS + 1)
    cluster = request.getfixturevalue("spark_cluster") if LONG else None
    monkeypatch.setenv("PASSWORD", PASSWORD)
    table = f"numbers_{seed}"
    with Broker(data=tmp_path / "broker") as broker:
        feed(broker.bootstrap_servers, tmp_path / "lines.log", rows)
        file = write_file(tmp_path, broker.bootstrap_servers, postgres.url, table, chosen)
        known = all_readers(tmp_path, broker.bootstrap_servers, request, postgres, table)
        readers = {name: known[name] for name in chosen}
        life = Life(tmp_path, file, cluster)
        victims = Victims(chance, life, broker, cluster)

        def look() -> int:
            return min(reader.found() for reader in readers.values())

        try:
            for number in range(KILLS):
                life.wait_for(look, PER_KILL * number + 1)
                # Somewhere in a batch, between two, or while Spark is still starting.
                time.sleep(chance.uniform(0, 3))
                victims.kill_one()
            life.wait_for(look, rows)
        finally:
            life.end()
        print(f"killed: {dict(victims.killed)}; the pipeline was started {life.count} times")
        for name, reader in readers.items():
            assert sorted(reader.numbers()) == list(range(rows)), f"{name} lost or doubled rows"


def all_readers(
    folder: Path, bootstrap: str, request: pytest.FixtureRequest, postgres: Postgres, table: str
) -> Mapping[str, Reader]:
    def of_iceberg(table: Path) -> list[int]:
        # Started only now: one Java at a time is enough for a small machine.
        spark: SparkSession = request.getfixturevalue("spark")
        return [row.n for row in spark.read.format("iceberg").load(str(table)).collect()]

    def of_lake(name: str) -> Reader:
        lake = folder / name
        return Reader(
            lambda: parquet_count(lake), lambda: [int(n) for (n,) in lake_rows(lake, "n")]
        )

    def of_table(name: str) -> Reader:
        return Reader(
            lambda: table_count(postgres, name),
            lambda: [int(n) for (n,) in postgres.query(f"SELECT n FROM {name}")],
        )

    def of_topic(name: str) -> Reader:
        return Reader(
            TopicCount(bootstrap, name, PARTITIONS),
            lambda: [json.loads(each.value() or b"")["n"] for each in read_all(bootstrap, name)],
        )

    iceberg = folder / "tables" / "shop" / "numbers"
    return {
        "parquet": of_lake("lake"),
        "files": of_lake("from-files"),
        "files_topic": of_topic("from-files"),
        "iceberg": Reader(
            lambda: iceberg_count(iceberg),
            lambda: of_iceberg(iceberg),
        ),
        "jdbc": of_table(table),
        "jdbc_append": of_table(f"{table}_append"),
    }


def feed(bootstrap: str, lines: Path, rows: int) -> None:
    """Numbers in a topic, and the same numbers in a file."""
    create(bootstrap, "numbers", PARTITIONS)
    create(bootstrap, "from-files", PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(rows):
        producer.produce("numbers", f'{{"n": {number}}}')
        producer.poll(0)
    assert producer.flush(60) == 0
    lines.write_text("".join(f'{{"n": {number}}}\n' for number in range(rows)))


def write_file(folder: Path, bootstrap: str, url: str, table: str, chosen: tuple[str, ...]) -> Path:
    sinks = {name: SINKS[name] for name in chosen}
    sources = [name for name in SOURCES if any(f"from: {name}," in text for text in sinks.values())]
    text = f"name: lake-{folder.name.replace('_', '-')[-40:]}\nbootstrap: {bootstrap}\nsources:\n"
    text += "".join(f"  {name}: {SOURCES[name]}\n" for name in sources)
    text += "sinks:\n" + "".join(f"  {name}: {text}\n" for name, text in sinks.items())
    text += "on_error: {policy: retry}\n"
    text = text.replace("URL", url).replace("TABLE", table).replace("user: USER", f"user: {USER}")
    file = folder / "lake.yml"
    file.write_text(text)
    return file

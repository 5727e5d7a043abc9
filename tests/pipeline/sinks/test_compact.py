"""Compaction of a lake: fewer files, the same rows, whoever reads or writes meanwhile."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.pipeline import compaction
from penstock.pipeline.compaction import Gain, Small, compact_lake, plan_groups, plan_lake
from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks import lake_disk as disk
from penstock.pipeline.sinks import lake_swap, parquet
from penstock.pipeline.sinks.lake_publication import Manifest, Publication
from penstock.pipeline.spec.sinks import ParquetSink
from tests.pipeline.sinks.lake_scene import context_of, lake_files, lake_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITER = "orders.out.0123456789ab"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "LISTING_SECONDS", 0.0)


ALL: dict[str, Any] = {"target": 1 << 20, "older_than": -60}


def publish(lake: Path, batch: int, rows: int = 10, folder: str = "day=1", **more: Any) -> None:
    """A batch of one file, as the sink publishes it."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    publication = Publication(str(lake), WRITER)
    if batch == 0:
        publication.prepare()
    path = os.path.join(publication.new_attempt(batch), folder, "x")
    os.makedirs(os.path.dirname(path))
    table = pa.table({"id": range(batch * rows, batch * rows + rows), **more})
    pq.write_table(table, path, compression="zstd")
    publication.publish(Manifest(batch, publication.plan(batch, [path], suffix=".zstd.parquet")))


def compact(lake: Path) -> Gain:
    return compact_lake(str(lake), plan_lake(str(lake), **ALL))


@pytest.mark.parametrize("folder", ["day=1", ""])
def test_many_files_of_a_folder_become_one_with_the_same_rows(tmp_path: Path, folder: str) -> None:
    lake = tmp_path / "lake"
    for batch in range(5):
        publish(lake, batch, folder=folder)
    gain = compact(lake)
    assert (gain.files_before, gain.files_after) == (5, 1)
    assert gain.bytes_after < gain.bytes_before
    assert len(lake_files(lake)) == 1
    assert lake_rows(lake, "id") == [(n,) for n in range(50)]
    assert compact(lake) == Gain(), "there is nothing left to do"


def test_folders_are_kept_apart_and_new_files_are_left_alone(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for batch in range(4):
        publish(lake, batch, folder=f"day={batch % 2}")
    groups = plan_lake(str(lake), target=1 << 20, older_than=3600)
    assert groups == []
    compact(lake)
    assert sorted(os.path.dirname(file) for file in lake_files(lake)) == ["day=0", "day=1"]


def test_a_column_that_came_later_is_null_before(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    publish(lake, 0, rows=1)
    publish(lake, 1, rows=1, note=["x"])
    compact(lake)
    assert lake_rows(lake, "id", "note") == [(0, None), (1, "x")]


def test_groups_are_filled_up_to_the_target_and_large_files_stay() -> None:
    files = [Small(f"f{n}", size, float(n)) for n, size in enumerate([40, 50, 30, 90, 20, 10])]
    groups = plan_groups("", files, target=100, changed_before=100.0)
    assert [[file.name for file in group.files] for group in groups] == [
        ["f0", "f1"],
        ["f2", "f4", "f5"],
    ]


def test_files_of_a_batch_that_is_being_published_are_left_alone(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for batch in range(3):
        publish(lake, batch)
    notes = lake / "_penstock" / "writers" / WRITER
    os.rename(notes / "00000002.done", notes / "00000002.publishing")
    [group] = plan_lake(str(lake), **ALL)
    assert len(group.files) == 2


def test_a_dry_run_tells_and_changes_nothing(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for batch in range(3):
        publish(lake, batch)
    before = lake_files(lake)
    gain = compact_lake(str(lake), plan_lake(str(lake), **ALL), dry_run=True)
    assert (gain.files_before, gain.files_after) == (3, 1)
    assert lake_files(lake) == before


def test_two_compactions_do_not_meet(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    publish(lake, 0)
    disk.make_folder(lake_swap.compaction_folder(str(lake)))
    with (
        disk.locked(lake_swap.run_lock_of(str(lake))),
        pytest.raises(Problem, match="being compacted already"),
    ):
        compact(lake)


def test_a_folder_that_no_pipeline_writes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="is no lake of a pipeline"):
        plan_lake(str(tmp_path), **ALL)


def test_no_reader_sees_a_row_twice_or_not_while_folders_are_swapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that lists a folder once, between any two steps of a pipeline and a compaction."""
    lake = tmp_path / "lake"
    publish(lake, 0)
    if not disk.exchange(str(lake / "day=1"), str(lake / "_penstock" / "staging")):
        pytest.skip("this file system cannot swap two folders")
    disk.exchange(str(lake / "day=1"), str(lake / "_penstock" / "staging"))
    monkeypatch.setattr(compaction, "LISTING_SECONDS", 0.5)
    ended = threading.Event()
    batches = 30

    def work() -> None:
        for batch in range(1, batches):
            publish(lake, batch)
            if batch % 6 == 0:
                compact(lake)
        ended.set()

    worker = threading.Thread(target=work)
    worker.start()
    seen: list[int] = []
    while not ended.is_set():
        if (rows := _list_once(lake / "day=1")) is not None:
            seen.append(rows)
    worker.join()
    assert seen == sorted(seen), "rows were doubled or missing for a moment"
    assert seen[-1] <= batches * 10
    assert lake_rows(lake, "id") == [(n,) for n in range(batches * 10)]


def _list_once(folder: Path) -> int | None:
    """The rows of all files that one listing gives; None if one of them is gone by then."""
    import pyarrow.parquet as pq

    # The folder is opened once: names and files are those of one moment.
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        names = os.listdir(opened)
        metadata = [pq.read_metadata(f"/proc/self/fd/{opened}/{name}") for name in names]
        return sum(int(each.num_rows) for each in metadata)
    except FileNotFoundError:
        return None
    finally:
        os.close(opened)


def test_types_of_spark_survive(spark: SparkSession, tmp_path: Path) -> None:
    rows = (
        spark.range(0, 4, numPartitions=2)
        .selectExpr(
            "id",
            "cast(id as decimal(10,2)) as price",
            "timestamp'2026-11-15 09:30:00.123456' as at",
            "timestamp_ntz'2026-11-15 09:30:00' as local",
            "date'2026-11-15' as day",
            "array(named_struct('a', id, 'b', null)) as many",
            "map('k', id) as pairs",
            "cast('x' as binary) as bytes",
        )
        .drop("many")
    )
    spec = ParquetSink(parquet="lake")
    sink = parquet.open_sink(context_of(spark, tmp_path, spec), "out", spec)
    sink.prepare(rows)
    sink.write(rows, 0)
    sink.write(rows, 1)
    lake = str(tmp_path / "lake")
    before = spark.read.parquet(lake)
    schema, content = before.schema, sorted(map(str, before.collect()))
    assert compact(tmp_path / "lake").files_after == 1
    after = spark.read.parquet(lake)
    assert after.schema == schema
    assert sorted(map(str, after.collect())) == content
    assert after.collect()[0].price in {decimal.Decimal(n) for n in range(4)}
    assert after.collect()[0].local == dt.datetime(2026, 11, 15, 9, 30)


def test_the_command_tells_what_was_gained(tmp_path: Path) -> None:
    for batch in range(3):
        publish(tmp_path / "lake", batch)
    (tmp_path / "orders.yml").write_text(
        "name: orders\nsources: {made: {generate: 1}}\nsinks: {out: {parquet: lake}}\n"
    )
    time.sleep(1.1)
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "pipeline", "compact", str(tmp_path / "orders.yml"),
         "--older-than", "1s", "-o", "json"],
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["out"]
    assert (told["files_before"], told["files_after"]) == (3, 1)
    assert len(lake_files(tmp_path / "lake")) == 1

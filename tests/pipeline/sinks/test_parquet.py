"""The Parquet sink: what is in the lake, for readers that know nothing of Penstock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.sinks import parquet
from penstock.pipeline.sinks.lake_layout import TASKS_PER_CORE
from penstock.pipeline.sinks.lake_publication import HIDDEN
from penstock.pipeline.spec.sinks import ParquetSink
from tests.pipeline.sinks.lake_scene import context_of, lake_files, lake_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE = Place("orders.yml", 7, "sinks.out")


def made(spark: SparkSession, start: int, end: int, *more: str) -> DataFrame:
    return spark.range(start, end, numPartitions=3).selectExpr(
        "id", "cast(id % 2 as string) as kind", "id * 10 as _offset", *more
    )


def opened(
    spark: SparkSession, tmp_path: Path, rows: DataFrame, **keys: Any
) -> parquet.OpenParquet:
    spec = ParquetSink(parquet="lake", place=PLACE, **keys)
    sink = parquet.open_sink(context_of(spark, tmp_path, spec), "out", spec)
    sink.prepare(rows)
    return sink


def test_a_batch_that_is_written_again_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    rows = made(spark, 0, 10)
    sink = opened(spark, tmp_path, rows)
    sink.write(rows, 0)
    sink.write(rows, 0)
    opened(spark, tmp_path, rows).write(rows, 0)
    more = made(spark, 10, 15)
    sink.write(more, 1)
    assert lake_rows(tmp_path / "lake") == [(n, str(n % 2)) for n in range(15)]
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 15


def test_a_checkpoint_that_began_anew_is_another_writer(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = made(spark, 0, 4)
    opened(spark, tmp_path, rows).write(rows, 0)
    (tmp_path / ".penstock" / "orders" / "penstock.json").unlink()
    opened(spark, tmp_path, rows).write(rows, 0)
    assert len(lake_rows(tmp_path / "lake")) == 8


def test_rows_lie_in_folders_by_column_time_and_expression(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = made(spark, 0, 4, "timestamp'2026-11-15 09:30:00' + make_interval(0,0,0,id) as at")
    sink = opened(spark, tmp_path, rows, partition_by=("day", "kind", "upper(kind) || 'x' AS big"))
    sink.write(rows, 0)
    files = lake_files(tmp_path / "lake")
    assert [file.rsplit("/", 1)[0] for file in files] == [
        "day=2026-11-15/kind=0/big=0x",
        "day=2026-11-16/kind=1/big=1x",
        "day=2026-11-17/kind=0/big=0x",
        "day=2026-11-18/kind=1/big=1x",
    ]
    assert lake_rows(tmp_path / "lake", "id", "day", "big")[3] == (3, "2026-11-18", "1x")


def test_without_a_time_of_their_own_rows_lie_under_the_records_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = made(spark, 0, 2, "timestamp'2026-11-15 09:30:00' as _timestamp")
    opened(spark, tmp_path, rows, partition_by=("day", "hour")).write(rows, 0)
    assert {file.rsplit("/", 1)[0] for file in lake_files(tmp_path / "lake")} == {
        "day=2026-11-15/hour=09"
    }


def test_times_are_such_as_every_reader_knows(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    rows = spark.range(1).selectExpr("id", "timestamp'2026-11-15 09:30:00' as at")
    opened(spark, tmp_path, rows).write(rows, 0)
    file = next((tmp_path / "lake").glob("*.parquet"))
    column = pq.ParquetFile(file).schema.column(1)
    assert (column.physical_type, column.logical_type.type) == ("INT64", "TIMESTAMP")
    assert pq.read_metadata(file).row_group(0).column(0).compression == "ZSTD"


def test_an_empty_batch_makes_no_file(spark: SparkSession, tmp_path: Path) -> None:
    rows = made(spark, 0, 1)
    opened(spark, tmp_path, rows).write(rows.where("id > 5"), 0)
    assert lake_files(tmp_path / "lake") == []
    [writer] = (tmp_path / "lake" / HIDDEN / "staging").iterdir()
    assert list(writer.iterdir()) == []


def test_small_batches_bring_the_rows_of_a_folder_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = made(spark, 0, 100)
    sink = opened(spark, tmp_path, rows, partition_by=("kind",))
    sink.write(rows, 0)
    first = lake_files(tmp_path / "lake")
    sink.write(rows, 1)
    assert len(lake_files(tmp_path / "lake")) - len(first) == 2 < len(first)


def test_a_batch_of_many_tasks_makes_few_files(spark: SparkSession, tmp_path: Path) -> None:
    rows = made(spark, 0, 1000).repartition(50)
    opened(spark, tmp_path, rows).write(rows, 0)
    cores = spark.sparkContext.defaultParallelism
    assert len(lake_files(tmp_path / "lake")) == TASKS_PER_CORE * cores


def test_files_are_not_larger_than_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    rows = made(spark, 0, 2000, "sha2(cast(id as string), 512) as noise")
    sink = opened(spark, tmp_path, rows, file_bytes="64k", compression="none")
    sink.write(rows, 0)  # as many as there are tasks: nobody knows yet how much a row takes
    assert len(lake_files(tmp_path / "lake")) == rows.rdd.getNumPartitions()
    sink.write(rows, 1)
    later = [path for path in (tmp_path / "lake").glob("*.parquet") if "-00000001-" in path.name]
    assert len(later) >= 4
    assert max(path.stat().st_size for path in later) < 100_000


def test_a_new_column_is_added_and_a_missing_one_is_null(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = made(spark, 0, 1)
    opened(spark, tmp_path, rows).write(rows, 0)
    wider = made(spark, 1, 2, "'x' as note")
    opened(spark, tmp_path, wider).write(wider, 1)
    narrow = made(spark, 2, 3)
    opened(spark, tmp_path, narrow).write(narrow, 2)
    found = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "lake")).orderBy("id")
    assert [tuple(row) for row in found.select("id", "note").collect()] == [
        (0, None),
        (1, "x"),
        (2, None),
    ]


@pytest.mark.parametrize(
    ("change", "keys", "expected"),
    [
        ("cast(id as string) as id", {}, "the column 'id' is string now, and bigint"),
        ("id", {"partition_by": ("kind",)}, "partition_by makes the folders kind"),
        ("null as note", {}, "nothing tells the type of 'note'"),
        ("1 as KIND", {}, "differ only in upper and lower case"),
        ("id", {"partition_by": ("week",)}, "'week', which is no column"),
        ("id", {"partition_by": ("day",)}, "the rows have no time"),
        ("id", {"partition_by": ("day(at)",)}, "names 'at', which the rows do not have"),
        ("id", {"partition_by": ("lower(nope) AS x",)}, "there is no column 'nope'"),
        ("id", {"partition_by": ("id", "kind")}, "leaves none for the files"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_the_start(
    spark: SparkSession, tmp_path: Path, change: str, keys: dict[str, Any], expected: str
) -> None:
    rows = made(spark, 0, 1).select("id", "kind")
    opened(spark, tmp_path, rows).write(rows, 0)
    other = rows.selectExpr(change, "kind")
    with pytest.raises(Problem, match=expected) as told:
        opened(spark, tmp_path, other, **keys)
    assert "orders.yml:7" in str(told.value)
    assert told.value.advice


def test_a_folder_of_sparks_own_sink_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lake" / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(Problem, match="Spark's own file sink"):
        opened(spark, tmp_path, made(spark, 0, 1))


def test_a_place_without_rename_is_refused_with_a_better_idea(tmp_path: Path) -> None:
    spec = ParquetSink(parquet="s3a://shop/orders")
    with pytest.raises(Problem, match="s3a://") as told:
        parquet.open_sink(context_of(None, tmp_path, spec), "out", spec)
    assert "Iceberg" in told.value.advice


def test_files_that_hold_fewer_rows_than_the_batch_are_not_published(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = made(spark, 0, 10)
    sink = opened(spark, tmp_path, rows)
    monkeypatch.setattr(parquet, "_read_files", lambda attempt: iter(()))
    with pytest.raises(Problem, match=r"batch 0 has 10 rows, but its files .* have 0"):
        sink.write(rows, 0)
    assert lake_files(tmp_path / "lake") == []


def test_a_lake_that_cannot_be_written_is_told(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("not a folder")
    with pytest.raises(Problem, match="could not be written"):
        opened(spark, tmp_path, made(spark, 0, 1))


def test_notes_are_where_no_reader_looks(spark: SparkSession, tmp_path: Path) -> None:
    rows = made(spark, 0, 1)
    opened(spark, tmp_path, rows).write(rows, 0)
    assert {path.name for path in (tmp_path / "lake").iterdir() if path.is_dir()} == {HIDDEN}

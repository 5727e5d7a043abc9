"""The Iceberg sink, read back through Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.pipeline import compaction_iceberg
from penstock.pipeline.compaction_iceberg import compact_table, expected
from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.sinks import iceberg
from penstock.pipeline.sinks.iceberg_catalog import iceberg_settings
from penstock.pipeline.sinks.iceberg_progress import LAST
from penstock.pipeline.spec.sinks import IcebergSink
from tests.pipeline.sinks.lake_scene import context_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE = Place("orders.yml", 7, "sinks.out")


@pytest.fixture
def catalog(request: pytest.FixtureRequest) -> str:
    """The sink's name: Spark keeps catalogs for the life of a session, so each test has its own."""
    return f"s{abs(hash(request.node.name)) % 10**9}"


def made(spark: SparkSession, start: int, end: int, *more: str) -> DataFrame:
    return spark.range(start, end, numPartitions=2).selectExpr("id", "id as _offset", *more)


def opened(
    spark: SparkSession, tmp_path: Path, name: str, rows: DataFrame, **keys: Any
) -> iceberg.OpenIceberg:
    spec = IcebergSink(iceberg="shop.orders", warehouse="lake", place=PLACE, **keys)
    sink = iceberg.open_sink(context_of(spark, tmp_path, spec), name, spec)
    sink.prepare(rows)
    return sink


def read(spark: SparkSession, name: str, *columns: str) -> list[tuple[Any, ...]]:
    table = f"penstock_{name}.shop.orders"
    # The stream's session has a cache of its own.
    spark.sql(f"REFRESH TABLE {table}")
    return sorted(tuple(row) for row in spark.table(table).select(*columns).collect())


def test_a_batch_counts_once_even_when_its_snapshot_is_expired(
    spark: SparkSession, tmp_path: Path, catalog: str
) -> None:
    rows = made(spark, 0, 3, "timestamp'2026-11-15' as at", "cast(1 as short) as small")
    sink = opened(spark, tmp_path, catalog, rows, partition_by=("days(at)", "bucket(4, id)"))
    sink.write(rows, 0)
    sink.write(rows, 0)
    opened(spark, tmp_path, catalog, rows).write(rows, 0)
    assert read(spark, catalog, "id") == [(0,), (1,), (2,)]
    table = f"penstock_{catalog}"
    spark.sql(f"INSERT INTO {table}.shop.orders VALUES (9, timestamp'2026-11-15', 1)")
    spark.sql(
        f"CALL {table}.system.expire_snapshots(table => 'shop.orders', retain_last => 1, "
        "older_than => TIMESTAMP '2100-01-01')"
    )
    opened(spark, tmp_path, catalog, rows).write(rows, 0)
    assert read(spark, catalog, "id") == [(0,), (1,), (2,), (9,)]


def test_a_batch_whose_number_did_not_reach_the_properties_counts(
    spark: SparkSession, tmp_path: Path, catalog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = made(spark, 0, 3)
    sink = opened(spark, tmp_path, catalog, rows)
    monkeypatch.setattr(sink._progress, "note", _die)
    with pytest.raises(KeyboardInterrupt):
        sink.write(rows, 0)
    sink.write(rows, 0)
    opened(spark, tmp_path, catalog, rows).write(rows, 0)
    assert read(spark, catalog, "id") == [(0,), (1,), (2,)]


def _die(batch: int) -> None:
    raise KeyboardInterrupt


def test_upserts_replace_delete_and_take_the_newest_of_a_batch(
    spark: SparkSession, tmp_path: Path, catalog: str
) -> None:
    keys: dict[str, Any] = {"mode": "upsert", "key": ("id",), "delete_when": "_op = 'd'"}
    rows = made(spark, 0, 4, "'a' as v", "'c' as _op")
    sink = opened(spark, tmp_path, catalog, rows, **keys)
    sink.write(rows, 0)
    assert read(spark, catalog, "id", "v") == [(0, "a"), (1, "a"), (2, "a"), (3, "a")]
    changes = spark.createDataFrame(
        [
            (1, 10, "x", "u"),
            (1, 11, "y", "u"),
            (2, 12, "z", "d"),
            (7, 13, "n", "c"),
            (8, 14, "", "d"),
        ],
        "id long, _offset long, v string, _op string",
    )
    sink.write(changes, 1)
    sink.write(changes, 1)
    expected = [(0, "a"), (1, "y"), (3, "a"), (7, "n")]
    assert read(spark, catalog, "id", "v") == expected
    again = opened(spark, tmp_path, catalog, rows, **keys)
    again.write(rows, 1)
    assert read(spark, catalog, "id", "v") == expected


def test_new_columns_are_added_and_changed_types_are_refused(
    spark: SparkSession, tmp_path: Path, catalog: str
) -> None:
    rows = made(spark, 0, 1)
    opened(spark, tmp_path, catalog, rows).write(rows, 0)
    wider = made(spark, 1, 2, "'x' as note")
    opened(spark, tmp_path, catalog, wider).write(wider, 1)
    narrow = made(spark, 2, 3)
    opened(spark, tmp_path, catalog, narrow).write(narrow, 2)
    found = {row[0]: row[1] for row in read(spark, catalog, "id", "note")}
    assert found == {0: None, 1: "x", 2: None}
    with pytest.raises(Problem, match="'id' is string now, and bigint in") as told:
        opened(spark, tmp_path, catalog, rows.selectExpr("cast(id as string) as id"))
    assert "orders.yml:7" in str(told.value)


def test_a_checkpoint_that_was_given_up_is_forgotten(
    spark: SparkSession, tmp_path: Path, catalog: str
) -> None:
    rows = made(spark, 0, 1)
    for _ in range(2):
        opened(spark, tmp_path, catalog, rows).write(rows, 0)
        (tmp_path / ".penstock" / "orders" / "penstock.json").unlink()
    shown = spark.sql(f"SHOW TBLPROPERTIES penstock_{catalog}.shop.orders").collect()
    assert len([row.key for row in shown if row.key.startswith(LAST)]) == 1
    assert read(spark, catalog, "id") == [(0,), (0,)]


def test_compaction_joins_files_and_forgets_snapshots_but_not_what_was_written(
    spark: SparkSession, tmp_path: Path, catalog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = made(spark, 0, 4)
    sink = opened(spark, tmp_path, catalog, rows)
    sink.write(rows, 0)
    monkeypatch.setattr(sink._progress, "note", _die)
    with pytest.raises(KeyboardInterrupt):
        sink.write(rows, 1)
    table = f"penstock_{catalog}.shop.orders"
    before = expected(spark, table, 1 << 20)
    gain = compact_table(spark, table, target=1 << 20, expire=0)
    assert (before.files_before, before.files_after) == (gain.files_before, gain.files_after)
    assert gain.files_before > gain.files_after == 1
    assert spark.sql(f"SELECT count(*) FROM {table}.snapshots").collect()[0][0] == 1
    opened(spark, tmp_path, catalog, rows).write(rows, 1)
    assert read(spark, catalog, "id") == sorted([(n,) for n in range(4)] * 2)


def test_a_snapshot_of_this_very_second_is_past(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_iceberg.time, "time", lambda: 100.9995)
    assert compaction_iceberg._ago(0) == "TIMESTAMP '1970-01-01 00:01:40.999 UTC'"
    assert compaction_iceberg._ago(100) == "TIMESTAMP '1970-01-01 00:00:00.999 UTC'"


@pytest.mark.parametrize(
    ("keys", "told_of"),
    [
        ({"iceberg": "orders", "warehouse": "lake"}, "has no namespace"),
        ({"iceberg": "nowhere.shop.orders"}, "no catalog is configured"),
        ({"iceberg": "shop.orders", "warehouse": "lake", "mode": "upsert"}, "Give `key`"),
    ],
)
def test_a_table_that_cannot_be_found_or_merged_is_refused(
    spark: SparkSession, tmp_path: Path, keys: dict[str, Any], told_of: str
) -> None:
    spec = IcebergSink(place=PLACE, **keys)
    with pytest.raises(Problem) as told:
        iceberg.open_sink(context_of(spark, tmp_path, spec), "out", spec)
    assert told_of in str(told.value)


def test_settings_of_the_session_name_a_catalog_for_each_warehouse(tmp_path: Path) -> None:
    spec = IcebergSink(iceberg="shop.orders", warehouse="lake")
    settings = iceberg_settings(context_of(None, tmp_path, spec).pipeline)
    assert settings["spark.sql.catalog.penstock_out.warehouse"] == str(tmp_path / "lake")

"""The JDBC sink, against a real PostgreSQL."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.sinks import jdbc
from penstock.pipeline.sinks.jdbc_connection import redacted
from penstock.pipeline.sinks.jdbc_statements import Statements
from penstock.pipeline.spec.sinks import JdbcSink
from tests.pipeline.postgres import PASSWORD, USER, Postgres
from tests.pipeline.sinks.lake_scene import context_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE = Place("orders.yml", 7, "sinks.out")


@pytest.fixture
def table(request: pytest.FixtureRequest) -> str:
    return f"t{abs(hash(request.node.name)) % 10**9}"


def made(spark: SparkSession, start: int, end: int, value: str = "'a'") -> DataFrame:
    return spark.range(start, end, numPartitions=2).selectExpr(
        "id", f"{value} as v", "id as _offset"
    )


def opened(
    spark: SparkSession,
    tmp_path: Path,
    postgres: Postgres,
    rows: DataFrame,
    **keys: Any,
) -> jdbc.OpenJdbc:
    given = {"user": USER, "password": PASSWORD, "place": PLACE, **keys}
    spec = JdbcSink(jdbc=postgres.url, **given)
    sink = jdbc.open_sink(context_of(spark, tmp_path, spec), "out", spec)
    sink.prepare(rows)
    return sink


def staged(postgres: Postgres) -> list[tuple[str, ...]]:
    """Tables of rows that are on their way; a pipeline that was killed elsewhere may leave some."""
    return postgres.query("SELECT tablename FROM pg_tables WHERE tablename LIKE 'penstock_stage%'")


def test_rows_are_replaced_by_key_and_a_batch_counts_once(
    spark: SparkSession, tmp_path: Path, postgres: Postgres, table: str
) -> None:
    before = staged(postgres)
    rows = made(spark, 0, 3)
    sink = opened(spark, tmp_path, postgres, rows, table=table, key=("id",))
    sink.write(rows, 0)
    newer = made(spark, 2, 4, "'b'")
    sink.write(newer, 1)
    sink.write(rows, 1)
    opened(spark, tmp_path, postgres, rows, table=table, key=("id",)).write(rows, 0)
    assert postgres.query(f"SELECT id, v FROM {table} ORDER BY id") == [
        ("0", "a"),
        ("1", "a"),
        ("2", "b"),
        ("3", "b"),
    ]
    assert staged(postgres) == before


def test_without_a_key_rows_are_added_once(
    spark: SparkSession, tmp_path: Path, postgres: Postgres, table: str
) -> None:
    rows = made(spark, 0, 3)
    sink = opened(spark, tmp_path, postgres, rows, table=table)
    for batch in (0, 0, 1):
        sink.write(rows, batch)
    assert postgres.query(f"SELECT count(*), count(DISTINCT id) FROM {table}") == [("6", "3")]


def test_the_newest_row_of_a_key_in_a_batch_wins(
    spark: SparkSession, tmp_path: Path, postgres: Postgres, table: str
) -> None:
    rows = spark.range(0, 10, numPartitions=2).selectExpr(
        "id % 2 as k", "id as n", "-id as rank", "id as _offset"
    )
    sink = opened(spark, tmp_path, postgres, rows, table=table, key=("k",))
    sink.write(rows, 0)
    assert postgres.query(f"SELECT k, n FROM {table} ORDER BY k") == [("0", "8"), ("1", "9")]
    sink = opened(spark, tmp_path, postgres, rows, table=table, key=("k",), order_by="rank")
    sink.write(rows, 1)
    assert postgres.query(f"SELECT k, n FROM {table} ORDER BY k") == [("0", "0"), ("1", "1")]


def test_a_table_that_is_there_keeps_its_types(
    spark: SparkSession, tmp_path: Path, postgres: Postgres, table: str
) -> None:
    postgres.query(f"CREATE TABLE {table} (id int PRIMARY KEY, body jsonb, more text DEFAULT 'm')")
    rows = spark.range(1).selectExpr("id", """'{"a": 1}' as body""")
    opened(spark, tmp_path, postgres, rows, table=table, key=("id",)).write(rows, 0)
    assert postgres.query(f"SELECT id, body->>'a', more FROM {table}") == [("0", "1", "m")]


def test_a_transaction_that_is_lost_leaves_nothing_behind(
    spark: SparkSession,
    tmp_path: Path,
    postgres: Postgres,
    table: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = staged(postgres)
    rows = made(spark, 0, 3)
    sink = opened(spark, tmp_path, postgres, rows, table=table)
    real = Statements.merge
    monkeypatch.setattr(Statements, "merge", lambda self, stage: (*real(self, stage), "SELECT 1/0"))
    with pytest.raises(Problem):
        sink.write(rows, 0)
    monkeypatch.undo()
    assert postgres.query(f"SELECT count(*) FROM {table}") == [("0",)]
    opened(spark, tmp_path, postgres, rows, table=table).write(rows, 0)
    assert postgres.query(f"SELECT count(*) FROM {table}") == [("3",)]
    assert staged(postgres) == before


def test_rows_that_two_tasks_staged_are_staged_again(
    spark: SparkSession,
    tmp_path: Path,
    postgres: Postgres,
    table: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = made(spark, 0, 3)
    sink = opened(spark, tmp_path, postgres, rows, table=table)
    real = sink._try_stage
    stages: list[str] = []

    def once_twice(batch: DataFrame, batch_id: int) -> str:
        stage = real(batch, batch_id)
        if not stages:
            postgres.query(f"INSERT INTO {stage} SELECT * FROM {stage}")
        stages.append(stage)
        return stage

    monkeypatch.setattr(sink, "_try_stage", once_twice)
    sink.write(rows, 0)
    assert len(stages) == 2
    assert postgres.query(f"SELECT id FROM {table} ORDER BY id") == [("0",), ("1",), ("2",)]


def test_a_row_that_breaks_a_rule_is_told_with_the_databases_words_and_no_secret(
    spark: SparkSession, tmp_path: Path, postgres: Postgres, table: str
) -> None:
    postgres.query(f"CREATE TABLE {table} (id int PRIMARY KEY, v text CHECK (v <> 'a'))")
    rows = made(spark, 0, 3)
    sink = opened(spark, tmp_path, postgres, rows, table=table, key=("id",))
    with pytest.raises(Problem, match="violates check constraint") as told:
        sink.write(rows, 0)
    assert "orders.yml:7" in str(told.value)
    assert PASSWORD not in str(told.value)
    assert "breaks a rule" in told.value.advice


@pytest.mark.parametrize(
    ("change", "keys", "expected"),
    [
        ("id as other", {"key": ("v",)}, "has no column 'other'"),
        ("id", {"key": ("nope",)}, "key names 'nope'"),
        ("id", {"key": ("id",), "order_by": "nope"}, "there is no column 'nope'"),
        ("id", {"key": ("v",)}, "unique index over exactly the columns"),
        ("id", {"password": "wrong", "key": ("id",)}, "password authentication failed"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_start(
    spark: SparkSession,
    tmp_path: Path,
    postgres: Postgres,
    change: str,
    keys: dict[str, Any],
    expected: str,
) -> None:
    postgres.query("CREATE TABLE IF NOT EXISTS narrow (id int PRIMARY KEY, v text)")
    rows = made(spark, 0, 1).selectExpr(change, "v")
    with pytest.raises(Problem, match=expected):
        opened(spark, tmp_path, postgres, rows, table="narrow", **keys)


def test_a_database_that_is_down_is_told_and_the_batch_is_written_when_it_is_back(
    spark: SparkSession, tmp_path: Path, postgres: Postgres, table: str
) -> None:
    rows = made(spark, 0, 3)
    sink = opened(spark, tmp_path, postgres, rows, table=table)
    postgres.stop(signal.SIGQUIT)
    try:
        with pytest.raises(Problem, match=r"Connection to .* refused") as told:
            sink.write(rows, 0)
        assert "See that the database runs" in told.value.advice
    finally:
        postgres.start()
    sink.write(rows, 0)
    assert postgres.query(f"SELECT count(*) FROM {table}") == [("3",)]


def test_databases_without_on_conflict_replace_rows_too(postgres: Postgres, table: str) -> None:
    postgres.query(f"CREATE TABLE {table} (id int, v text)")
    postgres.query(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'a')")
    statements = Statements(table, ("id", "v"), ("id",), postgresql=False)
    postgres.query(statements.create_stage(f"{table}_s"))
    postgres.query(f"INSERT INTO {table}_s VALUES (2, 'b', 0), (3, 'b', 1)")
    for statement in statements.merge(f"{table}_s"):
        postgres.query(statement)
    assert postgres.query(f"SELECT id, v FROM {table} ORDER BY id") == [
        ("1", "a"),
        ("2", "b"),
        ("3", "b"),
    ]
    postgres.query(f"DROP TABLE {table}_s")


def test_passwords_in_an_address_are_not_shown() -> None:
    assert redacted("jdbc:postgresql://me:x@h/shop") == "jdbc:postgresql://me:***@h/shop"
    assert redacted("jdbc:mysql://h/s?password=x&a=1") == "jdbc:mysql://h/s?password=***&a=1"

"""Tables as sources, with a real PostgreSQL."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sources.jdbc import open_source
from penstock.pipeline.sources.rising import RisingReader, Table, connection_of
from penstock.pipeline.spec.sources import JdbcSource
from tests.pipeline.postgres import PASSWORD, USER, Postgres

if TYPE_CHECKING:
    from pyspark.sql import Row

    Make = Callable[..., Context]
    Drain = Callable[..., list[Row]]


def source(postgres: Postgres, table: str, **more: object) -> JdbcSource:
    given = {"column": "id", **more}
    return JdbcSource(jdbc=postgres.url, user=USER, password=PASSWORD, table=table, **given)  # type: ignore[arg-type]


def reader(postgres: Postgres, table: str, *, column: str = "id", **more: object) -> RisingReader:
    """What decides on batches, without Spark."""
    from pyspark.sql.types import StringType, StructField, StructType

    given = {"start": "", "lag": "", "rows_max": None, **more}
    connection = connection_of(postgres.url, USER, PASSWORD, {})
    rising = Table(connection, table, column, (f"{column}::text",), **given)  # type: ignore[arg-type]
    return RisingReader(rising, StructType([StructField("at", StringType())]))


def batch(
    reading: RisingReader, start: dict[str, str | None]
) -> tuple[list[str], dict[str, str | None]]:
    end = reading.latestOffset()
    spans = reading.partitions(start, end)
    rows = [row for span in spans for part in reading.read(span) for row in part.to_pydict()["at"]]
    return rows, end


def test_each_row_comes_once_and_a_new_start_goes_on_where_the_last_one_ended(
    postgres: Postgres, make_context: Make, drain: Drain
) -> None:
    postgres.query(
        "CREATE TABLE orders (id bigserial, name text, amount numeric(10,2), at timestamptz, "
        "data jsonb, tag uuid, raw bytea, n int, ok bool, day date, free numeric)"
    )
    postgres.query(
        "INSERT INTO orders VALUES (1, '100%', 2.5, '2026-11-01 10:00:00+01', '{\"a\": 1}', "
        "'00000000-0000-0000-0000-000000000001', '\\xff', 3, true, '2026-11-01', 0.5)"
    )
    spec = source(postgres, "orders")
    view = open_source(make_context(spec), "orders", spec)
    (row,) = drain(view.rows)
    assert (row.id, row.name, row.amount, row.n, row.ok) == (1, "100%", Decimal("2.50"), 3, True)
    assert row.at.timestamp() == datetime.datetime(2026, 11, 1, 9, tzinfo=datetime.UTC).timestamp()
    assert (row.data, row.tag[-1], bytes(row.raw), row.free) == (
        '{"a": 1}',
        "1",
        b"\xff",
        Decimal("0.5"),
    )
    assert row._origin.source == "orders"
    postgres.query("INSERT INTO orders (id, name) VALUES (2, 'b'), (3, NULL)")
    again = open_source(make_context(spec), "orders", spec)
    assert [(row.id, row.name) for row in drain(again.rows)] == [(2, "b"), (3, None)]
    assert PASSWORD not in repr(spec) + view.rows._jdf.queryExecution().toString()


def test_rows_of_equal_value_are_never_divided(postgres: Postgres) -> None:
    postgres.query("CREATE TABLE ties AS SELECT n / 4 AS id FROM generate_series(0, 19) n")
    reading = reader(postgres, "ties", rows_max=3)
    at, taken = reading.initialOffset(), []
    for _ in range(6):
        rows, at = batch(reading, at)
        assert len(rows) in (0, 4)
        taken += rows
    assert taken == [str(n // 4) for n in range(20)]


def test_a_batch_that_is_read_again_gives_the_same_rows(postgres: Postgres) -> None:
    postgres.query("CREATE TABLE replayed AS SELECT n AS id FROM generate_series(1, 5) n")
    first = reader(postgres, "replayed")
    rows, end = batch(first, first.initialOffset())
    postgres.query("INSERT INTO replayed VALUES (6)")
    second = reader(postgres, "replayed")
    spans = second.partitions({"at": None}, end)
    again = [row for span in spans for part in second.read(span) for row in part.to_pydict()["at"]]
    assert again == rows
    assert batch(second, end)[0] == ["6"]


def test_a_lag_leaves_young_rows_for_later(postgres: Postgres) -> None:
    postgres.query("CREATE TABLE young AS SELECT n AS id FROM generate_series(1, 10) n")
    assert reader(postgres, "young", lag="3").latestOffset() == {"at": "7"}
    postgres.query(
        "CREATE TABLE timed AS "
        "SELECT now() - n * interval '1 hour' AS id FROM generate_series(0, 4) n"
    )
    reading = reader(postgres, "timed", lag="90 minutes")
    assert len(batch(reading, reading.initialOffset())[0]) == 3


def test_a_source_begins_above_the_value_that_it_is_given(postgres: Postgres) -> None:
    postgres.query("CREATE TABLE later AS SELECT n AS id FROM generate_series(1, 10) n")
    reading = reader(postgres, "(SELECT * FROM later WHERE id % 2 = 0)", start="5")
    assert batch(reading, reading.initialOffset())[0] == ["6", "8", "10"]


def test_an_empty_table_gives_nothing_and_its_first_row_is_not_missed(postgres: Postgres) -> None:
    postgres.query("CREATE TABLE empty (id int)")
    reading = reader(postgres, "empty")
    assert batch(reading, reading.initialOffset()) == ([], {"at": None})
    postgres.query("INSERT INTO empty VALUES (0)")
    assert batch(reading, {"at": None})[0] == ["0"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"table": "nowhere"}, "nowhere cannot be read: relation"),
        ({"column": "idd"}, "has no column 'idd'"),
        ({"start": "x"}, "cannot be read: invalid input syntax"),
        ({"lag": "often"}, "told cannot be read"),
        ({"password": "wrong"}, "password authentication failed"),
        ({"jdbc": "jdbc:mysql://localhost/shop"}, "a table at jdbc:mysql: cannot be followed"),
    ],
)
def test_a_source_that_cannot_be_read_is_told_with_advice(
    postgres: Postgres, make_context: Make, changed: dict[str, str], said: str
) -> None:
    from dataclasses import replace

    postgres.query("CREATE TABLE IF NOT EXISTS told (id int)")
    spec = replace(source(postgres, "told"), **changed)  # type: ignore[arg-type]
    with pytest.raises(Problem, match=said) as caught:
        open_source(make_context(spec), "told", spec)
    assert caught.value.advice
    assert PASSWORD not in str(caught.value)


def test_an_address_of_jdbc_is_understood_as_libpq_does() -> None:
    found = connection_of(
        "jdbc:postgresql://db.example:5433/shop?ssl=true&currentSchema=sales", "ada", "s", {}
    )
    assert found == {
        "host": "db.example",
        "port": "5433",
        "dbname": "shop",
        "sslmode": "require",
        "options": "-c search_path=sales",
        "user": "ada",
        "password": "s",
    }

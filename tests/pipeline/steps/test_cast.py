"""Values that cannot be turned into another type, by each policy."""

from __future__ import annotations

from decimal import Decimal

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.steps import CastStep
from penstock.pipeline.views import ORIGIN_TYPE
from tests.pipeline.steps.conftest import PLACE, Bench, origin, rows_of

STEP = CastStep(cast={"amount": "decimal(10,2)", "id": "int"}, place=PLACE)


@pytest.fixture
def orders(bench: Bench) -> Bench:
    rows = [("1", "5.25", origin(10)), ("2", "five", origin(11)), ("x", None, origin(12))]
    bench.table("orders", rows, f"id string, amount string, _origin {ORIGIN_TYPE}")
    return bench


def test_bad_values_send_their_records_to_the_dead_letters(orders: Bench) -> None:
    orders.policy = "dlq"
    made = orders.apply(STEP)
    assert [row[:2] for row in rows_of(made)] == [(1, Decimal("5.25"))]
    (errors,) = made.errors
    found = sorted((row.reason, row._origin.offset) for row in errors.collect())
    assert found == [
        ("amount: 'five' cannot be turned into decimal(10,2)", 11),
        ("id: 'x' cannot be turned into int", 12),
    ]


def test_dropped_records_are_counted(orders: Bench) -> None:
    orders.policy = "drop"
    made = orders.apply(STEP)
    assert [row[0] for row in rows_of(made)] == [1]
    assert made.errors == ()
    plan = made.rows._jdf.queryExecution().analyzed().toString()
    assert "penstock_errors_made" in plan


def test_a_bad_value_stops_the_pipeline_with_its_position(orders: Bench) -> None:
    made = orders.apply(STEP)
    with pytest.raises(Exception, match="a record cannot be used, orders-0 at offset 11: amount"):
        made.rows.where("amount IS NULL OR true").orderBy("id").collect()


def test_null_is_no_error(bench: Bench) -> None:
    bench.table("orders", [(None,), ("7",)], "id string")
    assert rows_of(bench.apply(CastStep(cast={"id": "int"}, place=PLACE))) == [(7,), (None,)]


def test_without_the_origin_there_is_nothing_to_write_to_the_dead_letters(bench: Bench) -> None:
    bench.policy = "dlq"
    bench.table("orders", [("7",)], "id string")
    with pytest.raises(Problem, match="left out '_origin'"):
        bench.apply(CastStep(cast={"id": "int"}, place=PLACE))


@pytest.mark.parametrize(
    ("cast", "said"),
    [
        ({"amuont": "int"}, "there is no column 'amuont' here"),
        ({"amount": "intt"}, "INTT"),
        ({"amount": "decimal(5,"}, "cannot be understood"),
    ],
)
def test_unknown_columns_and_types_are_refused(
    orders: Bench, cast: dict[str, str], said: str
) -> None:
    with pytest.raises(Problem) as refused:
        orders.apply(CastStep(cast=cast, place=PLACE))
    assert said.lower() in str(refused.value).lower() and refused.value.place == PLACE

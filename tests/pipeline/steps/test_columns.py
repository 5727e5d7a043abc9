"""Steps that look at single rows: SQL, select, filter, rename, flatten, mask, route."""

from __future__ import annotations

from hashlib import sha256

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.steps import (
    FilterStep,
    FlattenStep,
    MaskStep,
    RenameStep,
    RouteStep,
    SelectStep,
    SqlStep,
)
from tests.pipeline.steps.conftest import PLACE, Bench, rows_of

ORDERS = "id int, amount double, _key string"


@pytest.fixture
def orders(bench: Bench) -> Bench:
    bench.table("orders", [(1, 5.0, "a"), (2, 0.0, "b"), (3, None, "c")], ORDERS)
    return bench


def test_sql_names_views_and_the_one_before(orders: Bench) -> None:
    orders.apply(SqlStep(sql="SELECT id, amount FROM orders WHERE amount > 0", place=PLACE), "big")
    made = orders.apply(
        SqlStep(
            sql="SELECT o.id, b.id AS big\nFROM orders o LEFT JOIN {} b ON o.id = b.id;",
            place=PLACE,
        )
    )
    assert rows_of(made) == [(1, 1), (2, None), (3, None)]


def test_sql_keeps_only_what_it_selects(orders: Bench) -> None:
    made = orders.apply(SqlStep(sql="SELECT id FROM orders -- all of them", place=PLACE))
    assert made.rows.columns == ["id"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT amout FROM orders", "there is no column 'amout' here\n  Did you mean amount?"),
        ("SELECT *\nFROM ordrs", "'ordrs' here (line 2 of the statement)\n  Did you mean orders?"),
        ("SELEC 1", "cannot be understood near 'SELEC'"),
        ("SELECT nosuch(id) FROM orders", "there is no function 'nosuch'"),
        ("SELECT id + array(1) FROM orders", "incompatible types"),
        ("CREATE TABLE x (a int)", "the statement is no SELECT"),
        ("DROP VIEW orders", "the statement is no SELECT"),
        (" ;", "the statement is empty"),
    ],
)
def test_mistakes_in_sql_name_the_line_and_what_was_meant(
    orders: Bench, sql: str, said: str
) -> None:
    with pytest.raises(Problem) as refused:
        orders.apply(SqlStep(sql=sql, place=PLACE))
    assert str(refused.value).startswith("orders.yml:7")
    assert said in str(refused.value)
    assert "org.apache" not in str(refused.value) and "SQLSTATE" not in str(refused.value)


def test_select_keeps_the_columns_that_describe_the_record(orders: Bench) -> None:
    made = orders.apply(SelectStep(select=("id + 1 AS next", "amount"), place=PLACE))
    assert made.rows.columns == ["next", "amount", "_key"]
    assert rows_of(made)[0] == (2, 5.0, "a")


def test_select_of_a_describing_column_has_it_once(orders: Bench) -> None:
    made = orders.apply(SelectStep(select=("upper(_key) AS _key", "id"), place=PLACE))
    assert rows_of(made)[0] == ("A", 1)


def test_filter_keeps_rows_for_which_the_condition_holds(orders: Bench) -> None:
    made = orders.apply(FilterStep(filter="amount > 0", place=PLACE))
    assert rows_of(made) == [(1, 5.0, "a")]


def test_a_step_reads_the_view_that_it_names(orders: Bench) -> None:
    orders.apply(FilterStep(filter="false", place=PLACE), "none")
    made = orders.apply(FilterStep(filter="id = 2", source="orders", place=PLACE))
    assert rows_of(made) == [(2, 0.0, "b")]


def test_rename_refuses_unknown_and_taken_names(orders: Bench) -> None:
    made = orders.apply(RenameStep(rename={"id": "number", "amount": "id"}, place=PLACE))
    assert made.rows.columns == ["number", "id", "_key"]
    with pytest.raises(Problem, match="no column 'nmber'") as unknown:
        orders.apply(RenameStep(rename={"nmber": "n"}, place=PLACE))
    assert "Did you mean number?" in str(unknown.value)
    with pytest.raises(Problem, match="two columns would be called 'id'"):
        orders.apply(RenameStep(rename={"number": "id"}, place=PLACE))


def test_flatten_opens_nested_columns_at_any_depth(bench: Bench) -> None:
    schema = "id int, buyer struct<name: string, at: struct<city: string>>, _origin struct<a: int>"
    bench.table("orders", [(1, ("Ann", ("Ulm",)), (9,))], schema)
    made = bench.apply(FlattenStep(flatten=("*",), place=PLACE))
    assert made.rows.columns == ["id", "buyer_name", "buyer_at_city", "_origin"]
    assert rows_of(made) == [(1, "Ann", "Ulm", (9,))]


def test_exploded_arrays_give_a_row_each_and_empty_ones_stay(bench: Bench) -> None:
    bench.table(
        "orders", [(1, [("x",), ("y",)]), (2, [])], "id int, items array<struct<sku:string>>"
    )
    step = FlattenStep(flatten=("items",), explode=("items",), separator=".", place=PLACE)
    made = bench.apply(step)
    assert made.rows.columns == ["id", "items.sku"]
    assert rows_of(made) == [(1, "x"), (1, "y"), (2, None)]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (FlattenStep(flatten=("items",), place=PLACE), "explode: [items]"),
        (FlattenStep(flatten=("id",), place=PLACE), "'id' has no fields to open"),
        (FlattenStep(flatten=(), explode=("id",), place=PLACE), "'id' is no array"),
        (FlattenStep(flatten=("nosuch",), place=PLACE), "there is no column 'nosuch'"),
        (FlattenStep(flatten=("a",), place=PLACE), "two columns would be called 'a_b'"),
    ],
)
def test_what_cannot_be_flattened_is_refused(bench: Bench, step: FlattenStep, said: str) -> None:
    schema = "id int, items array<struct<sku: string>>, a struct<b: int>, a_b int"
    bench.table("orders", [], schema)
    with pytest.raises(Problem) as refused:
        bench.apply(step)
    assert said in str(refused.value) and refused.value.place == PLACE


def test_masks_hash_redact_empty_and_shorten(bench: Bench) -> None:
    bench.table(
        "orders",
        [("ann@x", "4111222233334444", "Ann", 7), (None, "123", None, None)],
        "email string, card string, name string, age int",
    )
    step = MaskStep(
        mask={"email": "hash", "card": "keep-last-4", "name": "redact", "age": "null"},
        salt="pepper",
        place=PLACE,
    )
    made = bench.apply(step)
    hashed = sha256(b"pepperann@x").hexdigest()
    assert made.rows.columns == ["email", "card", "name", "age"]
    assert made.rows.schema["age"].dataType.simpleString() == "int"
    assert rows_of(made) == sorted(
        [(hashed, "************4444", "***", None), (None, "***", None, None)], key=str
    )


def test_the_salt_of_a_hash_is_in_no_plan(bench: Bench) -> None:
    bench.stream("orders", "email string")
    made = bench.apply(MaskStep(mask={"email": "hash"}, salt="pepper", place=PLACE))
    plans = made.rows._jdf.queryExecution()
    assert "pepper" not in plans.analyzed().toString()
    bench.feed("orders", {"email": "ann@x"})
    with bench.start(made) as run:
        assert run.catch_up() == [(sha256(b"pepperann@x").hexdigest(),)]
        assert "pepper" not in run.query._jsq.explainInternal(True)


def test_an_unknown_mask_is_refused_with_those_that_there_are(orders: Bench) -> None:
    with pytest.raises(Problem, match="'id' cannot be masked by 'blur'") as refused:
        orders.apply(MaskStep(mask={"id": "blur"}, place=PLACE))
    assert "keep-last-4" in str(refused.value)


def test_a_row_goes_to_the_first_route_that_holds(orders: Bench) -> None:
    orders.apply(RouteStep(route={"big": "amount > 1", "known": "amount >= 0"}, place=PLACE))
    assert [row[0] for row in rows_of(orders.views["big"])] == [1]
    assert [row[0] for row in rows_of(orders.views["known"])] == [2]


def test_a_condition_over_null_leaves_the_row_to_the_next_route(orders: Bench) -> None:
    orders.apply(RouteStep(route={"big": "amount > 1", "rest": "true"}, place=PLACE))
    assert [row[0] for row in rows_of(orders.views["rest"])] == [2, 3]

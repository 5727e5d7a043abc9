"""Streams joined with tables that change while the pipeline runs."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.steps import JoinStep
from penstock.pipeline.steps.refresh import Refresh
from penstock.testing import Broker
from tests.pipeline.postgres import PASSWORD, USER, Postgres
from tests.pipeline.steps.conftest import PLACE, Bench

NOBODY = "jdbc:postgresql://localhost:1/shop"


@pytest.fixture
def refreshes(monkeypatch: pytest.MonkeyPatch) -> list[Refresh]:
    """The refreshes of tables, which these tests do themselves instead of waiting."""
    found: list[Refresh] = []

    def remember(refresh: Refresh, _seconds: float) -> None:
        found.append(refresh)

    monkeypatch.setattr(Refresh, "again_and_again", remember)
    return found


def names(rows: list[tuple[Any, ...]]) -> list[Any]:
    """What the tables of these tests add, the last column."""
    return [row[-1] for row in rows]


def put(broker: Broker, topic: str, records: dict[str, str | None]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for key, value in records.items():
        producer.produce(topic, key=key, value=value)
    assert producer.flush(30) == 0


def test_a_topic_is_the_newest_record_of_each_key(
    bench: Bench, pipeline_broker: Broker, refreshes: list[Refresh]
) -> None:
    put(pipeline_broker, "customers", {"a": '{"name": "Ann"}', "b": '{"name": "Bob"}'})
    bench.bootstrap = pipeline_broker.bootstrap_servers
    bench.stream("orders", "id int, customer string")
    step = JoinStep(
        join="customers",
        table="topic:customers",
        schema="name string",
        condition="orders.customer = customers._key",
        how="left",
        place=PLACE,
    )
    made = bench.apply(step)
    assert made.rows.columns == ["id", "customer", "name"]
    rows = [{"id": 1, "customer": "a"}, {"id": 2, "customer": "b"}, {"id": 3, "customer": "c"}]
    bench.feed("orders", *rows)
    with bench.start(made) as run:
        assert names(run.catch_up()) == ["Ann", "Bob", None]
        put(
            pipeline_broker, "customers", {"a": '{"name": "Anna"}', "b": None, "c": '{"name": "C"}'}
        )
        bench.feed("orders", *rows)
        assert names(run.catch_up()) == ["Ann", "Bob", None], "not older than `refresh`: as it was"
        refreshes[0].once()
        bench.feed("orders", *rows)
        assert names(run.catch_up()) == ["Anna", None, "C"]


def test_files_that_others_add_are_seen_after_a_refresh(
    bench: Bench, refreshes: list[Refresh]
) -> None:
    folder = bench.folder / "customers"
    folder.mkdir()
    (folder / "1.csv").write_text("id,name\n1,Ann\n")
    bench.stream("orders", "customer int")
    step = JoinStep(
        join="customers", table="csv:customers", condition="customer = customers.id", place=PLACE
    )
    made = bench.apply(step)
    bench.feed("orders", {"customer": 1}, {"customer": 2})
    with bench.start(made) as run:
        assert names(run.catch_up()) == ["Ann"]
        (folder / "2.csv").write_text("id,name\n2,Bob\n")
        refreshes[0].once()
        bench.feed("orders", {"customer": 1}, {"customer": 2})
        assert names(run.catch_up()) == ["Ann", "Bob"]


def test_snapshots_that_others_commit_are_seen_after_a_refresh(
    bench: Bench, refreshes: list[Refresh]
) -> None:
    bench.spark.sql("CREATE TABLE lake.shop.buyers (id int, name string) USING iceberg")
    bench.spark.sql("INSERT INTO lake.shop.buyers VALUES (1, 'Ann')")
    bench.stream("orders", "buyer int")
    warehouse = bench.spark.conf.get("spark.sql.catalog.lake.warehouse") or ""
    step = JoinStep(
        join="buyers",
        table="iceberg:shop.buyers",
        warehouse=warehouse,
        condition="buyer = buyers.id",
        how="left",
        place=PLACE,
    )
    made = bench.apply(step)
    bench.feed("orders", {"buyer": 1}, {"buyer": 2})
    with bench.start(made) as run:
        assert names(run.catch_up()) == ["Ann", None]
        # Through another catalog, as another process would.
        bench.spark.sql("INSERT INTO lake.shop.buyers VALUES (2, 'Bob')")
        refreshes[0].once()
        bench.feed("orders", {"buyer": 1}, {"buyer": 2})
        assert names(run.catch_up()) == ["Ann", "Bob"]


def test_a_database_is_asked_again_after_a_refresh(
    bench: Bench, refreshes: list[Refresh], postgres: Postgres
) -> None:
    postgres.query("CREATE TABLE step_buyers AS SELECT 1 AS id, 'Ann'::text AS name")
    bench.stream("orders", "buyer int")
    options = {"dbtable": "step_buyers", "user": USER, "password": PASSWORD}
    step = JoinStep(
        join="buyers",
        table=postgres.url,
        options=options,
        condition="buyer = buyers.id",
        place=PLACE,
    )
    made = bench.apply(step)
    bench.feed("orders", {"buyer": 1})
    with bench.start(made) as run:
        assert names(run.catch_up()) == ["Ann"]
        postgres.query("UPDATE step_buyers SET name = 'Anna'")
        refreshes[0].once()
        bench.feed("orders", {"buyer": 1})
        assert names(run.catch_up()) == ["Anna"]
        assert PASSWORD not in run.query._jsq.explainInternal(True)


def test_a_table_is_refreshed_again_and_again_even_after_it_failed_once(bench: Bench) -> None:
    renewed = threading.Semaphore(0)
    failing = [OSError("the folder is away")]

    def renew() -> None:
        if failing:
            raise failing.pop()
        renewed.release()

    refresh = Refresh(bench.spark, "customers", bench.spark.range(1), renew)
    thread = threading.Thread(target=refresh.again_and_again, args=(0.01,))
    thread.start()
    assert all(renewed.acquire(timeout=60) for _ in range(2))
    refresh.ended.set()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"table": "customers"}, "Tables begin with topic:, parquet:"),
        ({"table": "parquet:nosuch"}, "nosuch"),
        ({"table": "csv:customers.csv", "how": "full"}, "With a table use inner or left."),
        ({"table": "csv:customers.csv", "condition": "customers.nme = 'a'"}, "Did you mean name?"),
        ({"table": "jdbc:postgresql://localhost/shop"}, "options: {dbtable: NAME}"),
        ({"table": "iceberg:nosuch.customers"}, "nosuch"),
        ({"table": "csv:customers.csv", "schema": "id itn"}, "ITN"),
        ({"table": "csv:customers.csv", "refresh": "0 seconds"}, "no time at all"),
        ({"table": NOBODY, "options": {"dbtable": "customers"}}, "localhost:1 refused"),
    ],
)
def test_mistakes_about_tables_are_told(bench: Bench, changed: dict[str, Any], said: str) -> None:
    (bench.folder / "customers.csv").write_text("id,name\n1,Ann\n")
    bench.stream("orders", "customer int")
    given = {"condition": "customer = customers.id", **changed}
    with pytest.raises(Problem) as refused:
        bench.apply(JoinStep(join="customers", place=PLACE, **given))
    assert said in str(refused.value) and refused.value.place == PLACE

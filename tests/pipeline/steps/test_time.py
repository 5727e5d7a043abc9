"""Steps that know event time: windows, sessions, deduplication, joins of streams."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.steps import (
    DeduplicateStep,
    FilterStep,
    JoinStep,
    RenameStep,
    SelectStep,
    SqlStep,
    WindowStep,
)
from tests.pipeline.steps.conftest import PLACE, Bench

HITS = "page string, at timestamp, size int"


def at(clock: str) -> datetime:
    """A time on the day of these tests."""
    return datetime.fromisoformat(f"2026-11-01T{clock}")


def hit(page: str, clock: str, size: int = 1) -> dict[str, Any]:
    return {"page": page, "at": f"2026-11-01T{clock}Z", "size": size}


@pytest.fixture
def hits(bench: Bench) -> Bench:
    bench.stream("hits", HITS, watermark="at 10 minutes")
    return bench


def test_a_window_is_written_once_when_it_is_final_and_late_rows_are_left_out(hits: Bench) -> None:
    step = WindowStep(
        window="5 minutes",
        on="at",
        by=("page",),
        aggregate={"hits": "count(*)", "bytes": "sum(size)"},
        place=PLACE,
    )
    made = hits.apply(step)
    assert made.mode == "append"
    hits.feed("hits", hit("a", "10:01:00", 2), hit("a", "10:04:59", 3), hit("b", "10:05:00"))
    with hits.start(hits.apply(RenameStep(rename={"page": "url"}, place=PLACE), "named")) as run:
        assert run.catch_up() == []
        # Late, and still awaited: the watermark is at 09:55.
        hits.feed("hits", hit("a", "10:00:00", 5))
        assert run.catch_up() == []
        hits.feed("hits", hit("a", "10:15:00"))
        (closed,) = run.catch_up()
        assert closed[:5] == (at("10:00:00"), at("10:05:00"), "a", 3, 10)
        # Too late: the window was written.
        hits.feed("hits", hit("a", "10:02:00"), hit("b", "10:20:01"))
        assert [row[2:5] for row in run.catch_up()] == [("b", 1, 1)]


def test_windows_that_slide_overlap_and_update_at_each_change(hits: Bench) -> None:
    step = WindowStep(
        window="10 minutes / 5 minutes",
        on="at",
        aggregate={"hits": "count(*)"},
        emit="update",
        place=PLACE,
    )
    made = hits.apply(step)
    assert made.mode == "update"
    hits.feed("hits", hit("a", "10:01:00"), hit("a", "10:06:00"))
    with hits.start(made) as run:
        assert sorted((row[0], row[2]) for row in run.catch_up()) == [
            (at("09:55:00"), 1), (at("10:00:00"), 2), (at("10:05:00"), 1),
        ]  # fmt: skip
        hits.feed("hits", hit("a", "10:07:00"))
        assert sorted((row[0], row[2]) for row in run.catch_up()) == [
            (at("10:00:00"), 3), (at("10:05:00"), 2),
        ]  # fmt: skip


def test_a_session_ends_after_silence(hits: Bench) -> None:
    step = WindowStep(
        window="session",
        session="5 minutes",
        on="at",
        by=("page",),
        aggregate={"hits": "count(*)"},
        place=PLACE,
    )
    made = hits.apply(step)
    hits.feed("hits", hit("a", "10:00:00"), hit("a", "10:04:00"), hit("a", "10:10:00"))
    with hits.start(made) as run:
        run.catch_up()
        # The row of 10:07 joins what was two sessions until now.
        hits.feed("hits", hit("a", "10:07:00"))
        run.catch_up()
        hits.feed("hits", hit("z", "11:00:00"))
        assert [row[:4] for row in run.catch_up()] == [(at("10:00:00"), at("10:15:00"), "a", 4)]


def test_a_window_over_windows_waits_for_them(hits: Bench) -> None:
    hits.apply(
        WindowStep(window="5 minutes", on="at", aggregate={"hits": "count(*)"}, place=PLACE), "five"
    )
    made = hits.apply(
        WindowStep(window="10 minutes", on="_window", aggregate={"most": "max(hits)"}, place=PLACE)
    )
    hits.feed("hits", hit("a", "10:01:00"), hit("a", "10:06:00"), hit("a", "10:07:00"))
    with hits.start(made) as run:
        run.catch_up()
        hits.feed("hits", hit("a", "10:40:00"))
        assert [row[:3] for row in run.catch_up()] == [(at("10:00:00"), at("10:10:00"), 2)]


def test_a_key_is_remembered_within_the_watermark(hits: Bench) -> None:
    made = hits.apply(DeduplicateStep(deduplicate=("page",), place=PLACE))
    hits.feed("hits", hit("a", "10:00:00"), hit("a", "10:01:00"), hit("b", "10:02:00"))
    with hits.start(made) as run:
        assert [row[0] for row in run.catch_up()] == ["a", "b"]
        hits.feed("hits", hit("a", "10:05:00"), hit("c", "10:30:00"))
        assert [row[0] for row in run.catch_up()] == ["c"]
        hits.feed("hits", hit("a", "10:31:00"), hit("c", "10:29:00"))
        assert [row[0] for row in run.catch_up()] == ["a"]


ORDERS_JOIN = (
    "payments.order = orders.id AND payments.at BETWEEN orders.at AND orders.at + INTERVAL 1 HOUR"
)


@pytest.fixture
def shop(bench: Bench) -> Bench:
    bench.stream("orders", "id int, at timestamp, what string", watermark="at 10 minutes")
    bench.stream("payments", "order int, at timestamp, what string", watermark="at 10 minutes")
    return bench


def test_two_streams_meet_within_their_time_and_those_alone_come_when_it_is_over(
    shop: Bench,
) -> None:
    made = shop.apply(
        JoinStep(join="payments", source="orders", condition=ORDERS_JOIN, how="left", place=PLACE)
    )
    assert made.rows.columns == ["id", "at", "what", "order", "payments_at", "payments_what"]
    shop.feed("orders", {"id": 1, "at": "2026-11-01T10:00:00Z", "what": "book"})
    shop.feed("orders", {"id": 2, "at": "2026-11-01T10:00:00Z", "what": "pen"})
    with shop.start(made) as run:
        run.catch_up()
        shop.feed("payments", {"order": 1, "at": "2026-11-01T10:59:00Z", "what": "card"})
        shop.feed("payments", {"order": 2, "at": "2026-11-01T11:01:00Z", "what": "cash"})
        assert [(row[0], row[5]) for row in run.catch_up()] == [(1, "card")]
        shop.feed("orders", {"id": 3, "at": "2026-11-01T13:00:00Z", "what": "ink"})
        shop.feed("payments", {"order": 9, "at": "2026-11-01T13:00:00Z", "what": "cash"})
        assert [(row[0], row[5]) for row in run.catch_up()] == [(2, None)]


def said_of(bench: Bench, *steps: Any) -> str:
    with pytest.raises(Problem) as refused:
        for number, step in enumerate(steps):
            bench.apply(step, f"made{number}")
    assert refused.value.place == PLACE
    return str(refused.value)


def test_joins_of_streams_without_bounds_are_refused(shop: Bench) -> None:
    shop.stream("bare", "id int, at timestamp")
    unmarked = JoinStep(join="bare", source="orders", condition="bare.id = orders.id", place=PLACE)
    assert "'bare' has no watermark" in said_of(shop, unmarked)
    for condition in ("payments.order = orders.id", "order = id AND payments.at > orders.at"):
        unbound = JoinStep(join="payments", source="orders", condition=condition, place=PLACE)
        said = said_of(shop, unbound)
        assert "nothing says how far apart" in said
        assert "payments.at BETWEEN orders.at AND" in said
    itself = JoinStep(join="orders", source="orders", condition="true", place=PLACE)
    assert "joined with itself" in said_of(shop, itself)
    wrong = JoinStep(join="payments", source="orders", condition="payments.ordr = 1", place=PLACE)
    assert "Did you mean order?" in said_of(shop, wrong)


COUNT = {"hits": "count(*)"}


def test_steps_that_never_end_are_refused(bench: Bench) -> None:
    bench.stream("hits", HITS)
    window = WindowStep(window="5 minutes", on="at", aggregate=COUNT, place=PLACE)
    assert "without a watermark none ever is" in said_of(bench, window)
    dedupe = DeduplicateStep(deduplicate=("page",), place=PLACE)
    assert "remembered for ever" in said_of(bench, dedupe)
    group = SqlStep(sql="SELECT page, count(*) AS n FROM hits GROUP BY page", place=PLACE)
    assert "emit: update" in said_of(bench, group)
    order = SqlStep(sql="SELECT * FROM hits ORDER BY at", place=PLACE)
    assert "cannot be sorted" in said_of(bench, order)
    over = SelectStep(
        select=("row_number() OVER (PARTITION BY page ORDER BY at) AS n",), place=PLACE
    )
    assert "cannot be numbered" in said_of(bench, over)


def test_rows_that_change_cannot_be_counted_again(hits: Bench) -> None:
    first = SqlStep(
        sql="SELECT page, count(*) AS n FROM hits GROUP BY page", emit="update", place=PLACE
    )
    second = SqlStep(sql="SELECT n, count(*) AS m FROM {} GROUP BY n", place=PLACE)
    assert "writes its rows again" in said_of(hits, first, second)
    limited = SqlStep(sql="SELECT * FROM made0 LIMIT 3", place=PLACE)
    assert "cannot be limited" in said_of(hits, limited)


def test_update_travels_through_the_steps_behind(hits: Bench) -> None:
    hits.apply(
        SqlStep(sql="SELECT page, count(*) n FROM hits GROUP BY page", emit="update", place=PLACE),
        "counts",
    )
    assert hits.apply(FilterStep(filter="n > 1", place=PLACE), "often").mode == "update"
    assert hits.apply(SqlStep(sql="SELECT * FROM often", place=PLACE), "Copy").mode == "update"
    assert hits.apply(SqlStep(sql="SELECT * FROM copy", place=PLACE), "more").mode == "update"
    assert hits.apply(SqlStep(sql="SELECT page FROM hits", place=PLACE), "pages").mode == "append"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (WindowStep(window="5 minutes", on="page", aggregate=COUNT, place=PLACE), "type string"),
        (WindowStep(window="5 minutes", on="when", aggregate=COUNT, place=PLACE), "no column"),
        (WindowStep(window="5 minutes", on="at", aggregate={}, place=PLACE), "no aggregate"),
        (
            WindowStep(window="5 minutes", on="at", aggregate={"n": "sum(sise)"}, place=PLACE),
            "Did you mean size?",
        ),
        (WindowStep(window="session", on="at", aggregate=COUNT, place=PLACE), "or a session"),
        (
            WindowStep(window="1 minute / 5 minutes", on="at", aggregate=COUNT, place=PLACE),
            "leave rows out",
        ),
        (
            WindowStep(
                window="1 minute", on="at", watermark="1 hour", aggregate=COUNT, place=PLACE
            ),
            "has a watermark already",
        ),
        (DeduplicateStep(deduplicate=("pge",), place=PLACE), "Did you mean page?"),
        (DeduplicateStep(deduplicate=(), place=PLACE), "Name at least one column."),
    ],
)
def test_mistakes_are_told_with_their_line(hits: Bench, step: Any, said: str) -> None:
    assert said in said_of(hits, step)

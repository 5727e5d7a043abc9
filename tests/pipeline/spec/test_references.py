"""Views are there before they are used, and each has a name of its own."""

from __future__ import annotations

import pytest

from tests.pipeline.spec.files import problems, read, told

FILE = """\
name: orders
sources:
  orders: {{topic: orders}}
steps:
{steps}
sinks:
  lake: {{parquet: lake, from: {view}}}
"""


def with_steps(*steps: str, view: str = "orders") -> str:
    return FILE.format(steps="\n".join(f"  - {{{step}}}" for step in steps), view=view)


@pytest.mark.parametrize("view", ["orders", "step1", "good", "few", "rest", "Good", "ORDERS"])
def test_sources_steps_and_routes_are_views(view: str) -> None:
    steps = ("filter: a > 1", "filter: a > 2, as: good", "route: {few: a < 3, rest: true}")
    assert read(with_steps(*steps, view=view)).sinks["lake"].source == view


def test_a_view_that_is_nowhere_is_told_with_the_nearest() -> None:
    (problem,) = problems(with_steps("filter: a, as: good", view="goods"))
    assert str(problem) == (
        "orders.yml:7 (sinks.lake.from): there is no such view before this point\n"
        "  Did you mean 'good'? Known here: orders, good."
    )


def test_a_step_cannot_read_what_comes_after_it() -> None:
    assert told(with_steps("filter: a, from: later", "filter: b, as: later")) == [
        (5, "steps[1].from")
    ]


def test_a_step_that_is_named_has_no_number() -> None:
    assert told(with_steps("filter: a, as: good", view="step1")) == [(7, "sinks.lake.from")]


def test_the_other_side_of_a_join_is_a_view_or_a_table() -> None:
    assert told(with_steps("join: customers, on: a")) == [(5, "steps[1].join")]
    read(with_steps("join: customers, on: a, table: 'topic:customers'"))


@pytest.mark.parametrize(
    "steps",
    [
        ("filter: a, as: orders",),
        ("filter: a, as: Orders",),
        ("filter: a, as: step2", "filter: b"),
        ("filter: a, as: x", "route: {x: a}"),
    ],
)
def test_two_views_of_one_name_are_refused(steps: tuple[str, ...]) -> None:
    (problem,) = problems(with_steps(*steps))
    assert problem.what.startswith("two views are called")
    assert "Rename one of them" in problem.advice


def test_the_name_of_the_sink_for_errors_is_taken() -> None:
    (problem,) = problems(with_steps("filter: a").replace("lake:", "dead-letters:", 1))
    assert problem.what.startswith("this name is taken")

"""A watch over a group: what it shows, and what it survives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.cli import group_watch
from penstock.cli.failure import UNREACHABLE, Failure
from penstock.cli.group_watch import Watch, furthest
from penstock.cli.output import Shape

GONE = Failure("the connection broke", "", UNREACHABLE)
DELETED = Failure("group g cannot be described")


def lagging(*lags: int | None) -> dict[str, Any]:
    rows = [
        {
            "topic": "t", "partition": number, "committed": 0, "end": lag,
            "lag": lag, "seconds": 1.0, "member": None,
        }
        for number, lag in enumerate(lags)
    ]  # fmt: skip
    total = {"partitions": len(lags), "lag": sum(lag or 0 for lag in lags), "seconds": 1.0}
    return {"group": "g", "state": "stable", "total": total, "partitions": rows}


class Script(Watch):
    """A watch whose measurements are given; then somebody presses Ctrl-C."""

    def __init__(self, *outcomes: dict[str, Any] | Failure) -> None:
        super().__init__(lambda: pytest.fail("nobody is to connect"), "g")
        self._outcomes = list(outcomes)

    def measure(self) -> dict[str, Any]:
        if not self._outcomes:
            raise KeyboardInterrupt
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Failure):
            raise outcome
        return outcome


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_watch, "REFRESH_SECONDS", 0.0)


def test_each_measurement_is_a_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    Script(lagging(3), lagging(2)).show(Shape.JSON)
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["total"]["lag"] for line in lines] == [3, 2]


def test_each_measurement_is_a_document_of_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    import yaml

    Script(lagging(3), lagging(2)).show(Shape.YAML)
    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [one["total"]["lag"] for one in documents] == [3, 2]


def test_a_broker_that_goes_away_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    Script(lagging(3), GONE, GONE, lagging(1)).show(Shape.JSON)
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 2
    assert told.err == "error: the connection broke\n" * 2


def test_what_fails_at_first_ends_the_watch() -> None:
    with pytest.raises(Failure, match="the connection broke"):
        Script(GONE).show(Shape.JSON)


def test_a_group_that_is_no_more_ends_the_watch() -> None:
    with pytest.raises(Failure, match="cannot be described"):
        Script(lagging(3), DELETED).show(Shape.JSON)


def test_a_live_view_says_that_it_tries_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    Script(lagging(3), GONE, lagging(1)).show(Shape.TABLE)
    drawn = capsys.readouterr().out
    assert "the connection broke; trying again" in drawn
    assert drawn.count("behind") >= 3


def test_a_small_screen_shows_the_partitions_furthest_behind() -> None:
    many = lagging(1, 50, None, 7, 20)
    assert furthest(many, 5) is many
    worst = furthest(many, 3)
    assert [one["partition"] for one in worst["partitions"]] == [1, 4, 3]
    assert worst["total"] == many["total"]
    assert len(furthest(many, -4)["partitions"]) == group_watch.ROWS_MIN

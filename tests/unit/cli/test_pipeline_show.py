"""How the status of pipelines is shown."""

from __future__ import annotations

import json

import pytest

from penstock.cli import pipeline_show
from penstock.cli.output import Shape
from penstock.cli.pipeline_show import (
    Bars,
    JsonLines,
    Lines,
    LiveTable,
    sentence,
    show_for,
    status_table,
)
from penstock.pipeline.running.status import PipelineStatus, QueryStatus


def at_work(state: str = "running", message: str = "") -> PipelineStatus:
    status = PipelineStatus("orders", "orders.yml", 1, 0.0, state=state, message=message)
    status.queries["clean"] = QueryStatus(
        "clean", batch=3, rows=1200, rows_per_second=60.0, lag=3400, bad=2
    )
    return status


def test_a_sentence_tells_what_matters() -> None:
    assert sentence(at_work()) == "orders: running, 1,200 rows, 60 rows/s, lag 3,400, 2 bad"
    assert sentence(PipelineStatus("orders", "f", 1, 0.0)) == "orders: starting"


def test_lines_are_written_when_something_changes(capsys: pytest.CaptureFixture[str]) -> None:
    show = Lines()
    for status in (at_work("starting"), at_work(), at_work(), at_work("retrying", "no broker")):
        show([status])
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "orders: starting",
        "orders: running",
        "orders: retrying",
    ]
    assert "no broker" in lines[-1]


def test_a_line_is_written_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_show, "LINE_SECONDS", 0.0)
    show = Lines()
    for _ in range(3):
        show([at_work()])
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_json_is_a_line_for_each_status(capsys: pytest.CaptureFixture[str]) -> None:
    show = show_for(Shape.JSON, bounded=True)
    assert isinstance(show, JsonLines)
    show([at_work(), at_work("done")])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["state"] for each in told] == ["running", "done"]
    assert told[0]["lag"] == 3400


def test_a_table_has_a_column_for_messages_if_there_are_any() -> None:
    quiet, loud = status_table([at_work()]), status_table([at_work(message="so it is")])
    assert "message" not in quiet.headings
    assert loud.rows[0][-1] == "so it is"


def test_an_ended_pipeline_has_no_speed() -> None:
    table = status_table([at_work("done")])
    assert table.rows[0][table.headings.index("rows/s")] is None


def test_a_terminal_gets_a_table_or_bars(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    for bounded, kind in ((False, LiveTable), (True, Bars)):
        show = show_for(Shape.TABLE, bounded=bounded)
        assert isinstance(show, kind)
        show([at_work()])
        show([at_work("done")])
        show.close()
        drawn = capsys.readouterr().err
        assert "orders" in drawn
        assert "done" in drawn

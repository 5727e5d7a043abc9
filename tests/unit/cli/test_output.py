from __future__ import annotations

import json
import re

import pytest
import yaml

from penstock.cli.output import Shape, Table, answer, cell

DOCUMENT = [{"topic": "orders", "isr": [1, 2], "rack": None}]
TABLE = Table(("topic", "isr", "rack"), [["orders", [1, 2], None]])


def test_json_and_yaml_hold_the_whole_document(capsys: pytest.CaptureFixture[str]) -> None:
    answer(DOCUMENT, [TABLE], Shape.JSON)
    assert json.loads(capsys.readouterr().out) == DOCUMENT
    answer(DOCUMENT, [TABLE], Shape.YAML)
    assert yaml.safe_load(capsys.readouterr().out) == DOCUMENT


def test_a_table_in_a_pipe_is_plain_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    answer([], [Table(("name", "value"), [["a", long], ["bbbbbb", True]])], Shape.TABLE)
    assert capsys.readouterr().out == f"NAME    VALUE\na       {long}\nbbbbbb  yes\n"


def test_nothing_is_a_dash_and_lists_have_commas(capsys: pytest.CaptureFixture[str]) -> None:
    answer(DOCUMENT, [TABLE], Shape.TABLE)
    assert capsys.readouterr().out.splitlines()[1].split() == ["orders", "1,2", "-"]


def test_several_tables_have_a_line_between_them(capsys: pytest.CaptureFixture[str]) -> None:
    answer([], [TABLE, TABLE], Shape.TABLE)
    assert capsys.readouterr().out.count("\n\n") == 1


def test_a_terminal_gets_a_table_that_fits_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    answer([], [Table(("name", "value"), [["a", "x" * 100]])], Shape.TABLE)
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(map(len, drawn.splitlines())) <= 40
    assert drawn.count("x") == 100


def test_a_name_from_outside_does_not_move_the_cursor() -> None:
    assert cell("caf\u00e9") == "caf\u00e9"
    assert cell("a\x1b[2Jb\nc") == "a\\x1b[2Jb\\nc"
    assert cell(["a\t", "b"]) == "a\\t,b"

from __future__ import annotations

import pytest

from penstock.cli import launch, node
from penstock.cli.launch import Server, Up, read_launch
from penstock.cli.root import run_command

LINES = [
    (["up"], Up(overrides={})),
    (["up", "--port", "0", "--data", "/d"], Up("/d", port=0, overrides={})),
    (["up", "--port=9192", "--host=0.0.0.0"], Up(host="0.0.0.0", port=9192, overrides={})),
    (["up", "-d", "x", "-p", "1"], Up("x", port=1, overrides={})),
    (["up", "-c", "a=1", "--config", "b=x=y"], Up(overrides={"a": "1", "b": "x=y"})),
    (["up", "-c", "a=1", "-c", "a=2"], Up(overrides={"a": "2"})),
    (["up", "-c", "a="], Up(overrides={"a": ""})),
    (["up", "--brokers", "3", "-c", "a=1"], Up(overrides={"a": "1"}, brokers=3)),
    (["up", "-b", "2"], Up(overrides={}, brokers=2)),
    (["up", "--secure"], Up(overrides={}, secure=True)),
    (["up", "-d", "x", "--secure", "-p", "1"], Up("x", port=1, overrides={}, secure=True)),
    (["server", "node.properties"], Server("node.properties")),
]


@pytest.mark.parametrize(("words", "wanted"), LINES)
def test_plain_launches_are_read_without_the_full_parser(
    words: list[str], wanted: Up | Server
) -> None:
    assert read_launch(words) == wanted


@pytest.mark.parametrize(("words", "wanted"), LINES)
def test_the_full_parser_reads_them_the_same(
    words: list[str], wanted: Up | Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[Up | Server] = []

    def note(asked: Up | Server) -> int:
        launched.append(asked)
        return 7

    monkeypatch.setattr(node, "launch", note)
    assert run_command(words) == 7
    assert launched == [wanted]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["up", "--help"],
        ["up", "-h"],
        ["up", "--port"],
        ["up", "--port", "x"],
        ["up", "--port", "65536"],
        ["up", "--port", "-1"],
        ["up", "--prot", "1"],
        ["up", "--brokers", "0"],
        ["up", "--brokers", "65"],
        ["up", "--secure=yes"],
        ["up", "extra"],
        ["up", "--config", "novalue"],
        ["up", "--config", "=1"],
        ["server"],
        ["server", "--help"],
        ["server", "a", "b"],
        ["topic", "list"],
        ["--version"],
    ],
)
def test_all_else_is_left_to_the_full_parser(words: list[str]) -> None:
    assert read_launch(words) is None


def test_the_options_that_both_know_are_the_same() -> None:
    from typer.main import get_command

    options = {name for one in get_command(node.up).params for name in one.opts}
    assert options == set(launch._UP_OPTIONS)

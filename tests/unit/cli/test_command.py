"""The command as a whole: help, mistakes, statuses, and what it costs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from penstock.cli.root import COMMANDS, app
from penstock.version import KAFKA_RELEASE, VERSION
from tests.unit.cli.runner import Penstock
from tests.unit.testing.yardstick import seconds_when_quiet

QUICK_SECONDS_MAX = 0.150


def imported_by(*words: str) -> set[str]:
    """The top-level modules in memory after a command line ran."""
    script = (
        "import sys; from penstock.cli.main import run; status = run(sys.argv[1:]);"
        "print('\\nmodules', *{name.partition('.')[0] for name in sys.modules})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True
    )
    return set(ran.stdout.rpartition("modules")[2].split())


def test_the_version_names_kafkas_release_too(penstock: Penstock) -> None:
    told = penstock("--version")
    assert told.returncode == 0
    assert told.stdout == f"penstock {VERSION} (Kafka {KAFKA_RELEASE} protocol)\n"
    assert penstock("-V").stdout == told.stdout


def test_help_lists_every_command(penstock: Penstock) -> None:
    told = penstock("--help")
    assert told.returncode == 0
    for name, (_, _, line) in COMMANDS.items():
        assert f"  {name}" in told.stdout
        assert line in told.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_list_is_the_first_line_of_the_commands_help(name: str) -> None:
    from typer.main import get_command

    command = get_command(app).get_command(None, name)  # type: ignore[attr-defined]
    assert command.help.partition("\n")[0] == COMMANDS[name][2]


def test_no_words_at_all_show_help_and_end_as_a_mistake(penstock: Penstock) -> None:
    for words in ((), ("topic",)):
        told = penstock(*words)
        assert told.returncode == 2
        assert told.stdout == ""
        assert "Usage: penstock" in told.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("tpic",), "There is no command 'tpic'; did you mean topic?"),
        (("topic", "crate"), "No such command 'crate'. Did you mean 'create'"),
        (("topic", "create"), "Missing argument 'NAME'"),
        (("topic", "list", "-o", "xml"), "'xml' is none of table, json, yaml"),
        (("up", "--port", "http"), "'http' is not a whole number from 0 to 65535"),
        (("topic", "create", "t", "-p", "0"), "'0' is not a whole number from 1 to 100000"),
        (("consume", "t", "-n", "-1"), "'-1' is not a whole number of at least 0"),
        (("topic", "create", ""), "'NAME': it is empty"),
        (("config", "set", "-t", "t", "a"), "'a' is not KEY=VALUE"),
        (("config", "describe", "-t", ""), "whose configuration?"),
        (("topic", "list", "--wait", "soon"), "'soon' is not a number from 0.1 to 3600"),
        (("topic", "create", os.fsdecode(b"a\xff")), "is not text in UTF-8"),
        (("topic", "create", "t", "-c", "x"), "--config 'x' is not KEY=VALUE"),
        (("topic", "alter", "t"), "nothing to alter"),
        (("topic", "delete", "t"), "not deleting t unasked"),
        (("config", "describe"), "whose configuration?"),
        (("config", "describe", "-t", "a", "-g", "b"), "one at a time: topic a, group b"),
        (("consume", "t", "--from", "soon"), "--from 'soon' is not a position"),
        (("consume", "t", "-F", "--to", "5"), "--follow never stops"),
        (("produce", "t", "--whole", "-k", ":"), "--whole takes a file as it is"),
        (("topic", "list", "-b", "localhost:http"), "'http' is no port"),
    ],
)
def test_a_mistake_says_what_is_wrong_and_what_to_do(
    penstock: Penstock, words: tuple[str, ...], problem: str
) -> None:
    told = penstock(*words)
    assert told.returncode == 2
    assert told.stdout == ""
    assert told.stderr.startswith("error: ")
    assert problem in told.stderr
    assert "hint: " in told.stderr
    assert "\x1b" not in told.stderr


def test_a_cluster_that_is_not_there_is_told_of_at_once(penstock: Penstock) -> None:
    began = time.monotonic()
    told = penstock("topic", "list", "-b", "127.0.0.1:1")
    assert told.returncode == 3
    assert "cannot reach a broker at 127.0.0.1:1: Connection refused" in told.stderr
    assert "penstock up" in told.stderr
    assert time.monotonic() - began < 5


def test_the_version_imports_no_parser() -> None:
    assert not {"typer", "rich", "confluent_kafka", "asyncio"} & imported_by("--version")


def test_a_node_carries_no_parser() -> None:
    script = (
        "import sys, types; from penstock.cli.main import run;"
        "app = sys.modules['penstock.app'] = types.ModuleType('penstock.app');"
        "app.run_up = app.run_server = app.run_company = lambda *_, **__: 7;"
        "print(run(['up', '--port', '0']), 'typer' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert told.stdout.split() == ["7", "False"], told.stderr


@pytest.mark.parametrize("words", [("--help",), ("topic", "create", "--help"), ("log", "--help")])
def test_help_imports_nothing_heavy(words: tuple[str, ...]) -> None:
    heavy = {"rich", "pydantic", "confluent_kafka", "yaml", "asyncio", "uvloop"}
    assert not heavy & imported_by(*words)


@pytest.mark.parametrize(
    "words", [("topic", "list", "-b", "127.0.0.1:1", "-o", "json", "--wait", "1")]
)
def test_commands_convert_their_words_without_pydantic(words: tuple[str, ...]) -> None:
    assert "pydantic" not in imported_by(*words)


@pytest.mark.parametrize(
    "words", [("--version",), ("--help",), ("topic", "--help"), ("produce", "--help")]
)
def test_version_and_help_answer_quickly(penstock: Penstock, words: tuple[str, ...]) -> None:
    assert penstock(*words).returncode == 0
    took = seconds_when_quiet(lambda: penstock(*words), QUICK_SECONDS_MAX)
    assert took < QUICK_SECONDS_MAX


def test_every_option_and_argument_has_help() -> None:
    from penstock.cli.reference import commands

    for path, command in commands():
        for parameter in command.params:
            assert parameter.help, f"{path}: {parameter.name}"

"""What changes when somebody is looking: colours, and a bar on work that takes a while."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from penstock.cli import progress
from penstock.cli.progress import Progress
from tests.unit.cli.runner import Penstock


def on_a_terminal(penstock: Penstock, *words: str, **variables: str) -> str:
    """What a command prints on a terminal that is its standard error."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        penstock.command(*words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=its,
        env={**penstock.environment, "TERM": "xterm", **variables},
    )
    os.close(its)
    printed = b""
    try:
        while chunk := os.read(ours, 4096):
            printed += chunk
    except OSError:
        pass  # how Linux tells the end of a terminal whose other side is closed
    os.close(ours)
    process.wait(60)
    return printed.decode()


def test_errors_are_coloured_on_a_terminal(penstock: Penstock) -> None:
    assert "\x1b[31;1merror: \x1b[0m" in on_a_terminal(penstock, "tpic")


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_turned_off(penstock: Penstock, variables: dict[str, str]) -> None:
    assert "\x1b" not in on_a_terminal(penstock, "tpic", **variables)


@pytest.mark.parametrize(
    ("typed", "status", "told"), [("n", 1, "nothing was done"), ("y", 3, "cannot reach a broker")]
)
def test_deleting_asks_whoever_sits_at_the_terminal(
    penstock: Penstock, typed: str, status: int, told: str
) -> None:
    ours, its = pty.openpty()
    process = subprocess.Popen(
        penstock.command("topic", "delete", "orders", "-b", "127.0.0.1:1"),
        stdin=its,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=penstock.environment,
    )
    os.close(its)
    os.write(ours, typed.encode() + b"\n")
    output, errors = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == status
    assert output == b""
    assert b"Delete orders and all records in them?" in errors
    assert told in errors.decode()


def pretend_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a fixture: capsys gives the test a new standard error when it begins."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


def test_long_work_shows_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend_terminal(monkeypatch)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    with Progress("producing", 100, size=False) as bar:
        bar.advance(40)
        bar.advance(10)
    drawn = capsys.readouterr().err
    assert "producing" in drawn
    assert "50/100" in drawn
    assert bar.done == 50


def test_short_work_shows_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend_terminal(monkeypatch)
    with Progress("producing", 100, size=False) as bar:
        bar.advance(100)
    assert capsys.readouterr().err == ""


def test_a_pipe_sees_no_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    with Progress("producing", 100, size=False) as bar:
        bar.advance(100)
    assert capsys.readouterr().err == ""

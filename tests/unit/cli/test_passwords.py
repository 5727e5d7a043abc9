from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from penstock.cli import user_passwords
from penstock.cli.failure import USAGE, Failure
from penstock.cli.secure_secrets import MASK, SECRETS, shown
from penstock.cli.user_passwords import new_password
from penstock.security.plain import keep
from tests.unit.cli.runner import Penstock


class Terminal(io.TextIOWrapper):
    """Standard input with nobody, or somebody, at it."""

    def __init__(self, text: str, person: bool = False) -> None:
        super().__init__(io.BytesIO(text.encode()))
        self._person = person

    def isatty(self) -> bool:
        return self._person


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    words = iter(["geheim", "geheim"])
    monkeypatch.setattr(sys, "stdin", Terminal("", person=True))
    monkeypatch.setattr("getpass.getpass", lambda *_: next(words))


def test_a_password_comes_from_a_file_without_the_end_of_its_line(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(" ge heim \n")
    assert new_password("alice", file=str(file), generate=False) == " ge heim "


def test_a_password_comes_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("geheim\nand more\n"))
    assert new_password("alice", file=None, generate=False) == "geheim"


@pytest.mark.usefixtures("typed")
def test_a_password_is_asked_for_twice_at_a_terminal() -> None:
    assert new_password("alice", file=None, generate=False) == "geheim"


def test_two_that_differ_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    words = iter(["geheim", "gehiem"])
    monkeypatch.setattr(sys, "stdin", Terminal("", person=True))
    monkeypatch.setattr("getpass.getpass", lambda *_: next(words))
    with pytest.raises(Failure, match="differ") as failed:
        new_password("alice", file=None, generate=False)
    assert failed.value.status == USAGE


def test_generated_passwords_differ_and_are_long() -> None:
    made = {new_password("alice", file=None, generate=True) for _ in range(100)}
    assert len(made) == 100
    assert all(len(each) == 32 for each in made)


@pytest.mark.parametrize("text", ["", "\n", "x" * 2000])
def test_no_password_and_too_much_of_one_are_refused(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(text))
    with pytest.raises(Failure) as failed:
        new_password("alice", file="-", generate=False)
    assert failed.value.status == USAGE


def test_a_file_and_a_generated_one_exclude_each_other() -> None:
    with pytest.raises(Failure, match="--password-file and --generate"):
        new_password("alice", file="x", generate=True)
    assert user_passwords.generated() != user_passwords.generated()


def test_what_is_written_in_place_of_a_password_opens_with_it_and_is_not_it(
    penstock: Penstock,
) -> None:
    text = penstock.out("user", "hash", "-m", "scram-sha-256", stdin="geheim\n").strip()
    assert text.startswith("SCRAM-SHA-256$8192:")
    kept = keep(text, b"")
    assert kept.opens("geheim")
    assert not kept.opens(text)


def test_secrets_are_shown_by_where_they_are_and_never_by_what() -> None:
    for key in SECRETS:
        assert shown(key, "secret") == MASK
        assert shown(key, "env:SECRET") == "env:SECRET"
        assert shown(key, "file:/secret") == "file:/secret"
    assert shown("sasl.username", "alice") == "alice"

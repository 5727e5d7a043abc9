from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli import reference
from penstock.cli.generated.help_pages import PAGES
from penstock.cli.root import run_command

REPOSITORY = Path(__file__).resolve().parents[3]
AGAIN = "run `python -m penstock.cli.reference` and commit what it changes"


def test_the_reference_page_says_what_the_commands_say() -> None:
    page = (REPOSITORY / reference.REFERENCE_PATH).read_text()
    assert page == reference.reference_page(), AGAIN


def test_the_ready_made_help_is_what_the_commands_say() -> None:
    module = (REPOSITORY / reference.HELP_PATH).read_text()
    assert module == reference.help_pages(), AGAIN


@pytest.mark.parametrize("path", PAGES)
def test_typer_would_print_the_same_help(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run_command([*path.split(), "--help"]) == 0
    assert capsys.readouterr().out == PAGES[path]

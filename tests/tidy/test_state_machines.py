"""The page of state machines shows all of them, as they are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from codegen.machines import page
from codegen.machines.page import MACHINES, Machine

SOURCE = Path(__file__).parents[2] / "src"


def test_the_page_is_drawn_from_the_tables() -> None:
    with open(page.TARGET, encoding="utf-8") as file:
        assert file.read() == page.page(), "run: python -m codegen.machines.page"


def test_every_table_is_on_the_page() -> None:
    tables = {
        str(path.relative_to(SOURCE))
        for path in (SOURCE / "penstock").rglob("*.py")
        if "NEXT" in path.read_text() and "NEXT" in _assigned(path)
    }
    assert tables == {machine.source for machine in MACHINES}


def _assigned(path: Path) -> set[str]:
    """The names that a module gives values to at its top."""
    names = set()
    for statement in ast.parse(path.read_text()).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.title)
def test_every_state_that_something_leads_from_can_be_reached(machine: Machine) -> None:
    # What a newer version wrote into a log is where nothing of ours leads to.
    reached = {machine.start, *(state for state in machine.states if state.name == "UNKNOWN")}
    grown = True
    while grown:
        grown = False
        for (state, _), after in machine.table.items():
            if state in reached and after not in reached:
                reached.add(after)
                grown = True
    assert {state for state, _ in machine.table} <= reached


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.title)
def test_every_event_leads_somewhere_and_says_what_it_is(machine: Machine) -> None:
    assert {event for _, event in machine.table} == set(machine.events)
    assert [event for event in machine.events if not page.meaning(event)] == []

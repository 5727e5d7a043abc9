"""Writes docs/reference/state-machines.md.

    python -m codegen.machines.page

Every arrow on the page is a row of a machine's own table, and every meaning stands next to the
state or event in its module; a test wants no difference.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import SimpleNamespace
from typing import Any, NamedTuple

from penstock.coordination.delivery import states as delivery
from penstock.coordination.group.classic import states as classic
from penstock.coordination.group.consumer import member as consumer_member
from penstock.coordination.group.consumer import reconcile as consumer
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.txn import states as txn
from penstock.raft import roles as raft

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(HERE, "..", "..", "docs", "reference", "state-machines.md")

INTRODUCTION = """\
# State machines

<!-- Written by `python -m codegen.machines.page`. Do not edit. -->

Each machine of a node is one table in the code: a state and an event lead to the next state, and
what is not in the table does not happen. This page is drawn from those tables.
"""


class Machine(NamedTuple):
    """One table, and how to tell of it."""

    title: str
    introduction: str
    source: str
    """The module with the table, as a path under src/."""
    table: Mapping[Any, Any]
    """(state, event): the state that follows; the enumerations differ from machine to machine."""
    start: Enum
    name: Callable[[Enum], str]
    """What a state is called on the wire, or else in the code."""

    @property
    def states(self) -> list[Enum]:
        return list(type(self.start))

    @property
    def events(self) -> list[Enum]:
        kinds: set[type[Enum]] = {type(event) for _, event in self.table}
        return [event for kind in kinds for event in kind]


def camel(state: Enum) -> str:
    return state.name.title().replace("_", "")


MACHINES = (
    Machine(
        "A classic group",
        "Members join, one of them assigns the partitions, and all fetch their share; whoever "
        "comes, goes or falls silent starts it over.",
        "penstock/coordination/group/classic/states.py",
        classic.NEXT,
        classic.State.EMPTY,
        lambda state: str(state.value),
    ),
    Machine(
        "A member of a consumer group",
        "In groups of the new protocol the coordinator assigns, and leads each member on its own "
        "from what it holds to what it should hold. With every heartbeat it compares the two.",
        "penstock/coordination/group/consumer/reconcile.py",
        consumer.NEXT,
        consumer_member.State.STABLE,
        camel,
    ),
    Machine(
        "A transactional id",
        "The outcome is decided when it is in the log, before any partition knows of it; then "
        "markers tell the partitions.",
        "penstock/coordination/txn/states.py",
        txn.NEXT,
        txn.TxnState.EMPTY,
        lambda state: state.title if isinstance(state, txn.TxnState) else state.name,
    ),
    Machine(
        "A record that a share group reads",
        "Each share group has its own opinion of each record between its start and the last record "
        "it has read. What a member says counts when the share coordinator has it; until then the "
        "record is neither the member's nor anybody else's.",
        "penstock/coordination/delivery/states.py",
        delivery.NEXT,
        delivery.State.AVAILABLE,
        camel,
    ),
    Machine(
        "A voter of the metadata quorum",
        "Who leads the metadata log.",
        "penstock/raft/roles.py",
        raft.NEXT,
        raft.Role.UNATTACHED,
        camel,
    ),
)


def page() -> str:
    """The text of state-machines.md."""
    parts = [INTRODUCTION]
    for machine in MACHINES:
        parts.append(section(machine))
        if machine.table is consumer.NEXT:
            parts.append(consumer_group_section())
    return "\n".join(parts)


def section(machine: Machine) -> str:
    """A picture, the meanings of its words, and where the table is."""
    link = f"[{machine.source}](../../src/{machine.source})"
    used = {state for state, _ in machine.table} | set(machine.table.values())
    states = [
        (
            f"`{machine.name(state)}`",
            (sentence(meaning(state)) or "-") + ("" if state in used else " No arrow leads here."),
        )
        for state in machine.states
    ]
    return "\n".join(
        [
            f"## {machine.title}",
            "",
            *textwrap.wrap(machine.introduction, 100),
            f"The table: {link}.",
            "",
            picture(machine),
            "",
            *rows("| State | Meaning |", states),
            "",
            *rows(
                "| Event | Meaning |",
                [(words(event), sentence(meaning(event))) for event in machine.events],
            ),
            "",
        ]
    )


def picture(machine: Machine) -> str:
    """The table as a diagram; events that lead the same way share an arrow."""
    arrows: dict[tuple[Enum, Enum], list[str]] = {}
    for (state, event), after in machine.table.items():
        arrows.setdefault((state, after), []).append(words(event))
    ends = set(machine.table.values()) - {state for state, _ in machine.table}
    lines = [
        f"    [*] --> {machine.name(machine.start)}",
        *(
            f"    {machine.name(state)} --> {machine.name(after)} : {', '.join(events)}"
            for (state, after), events in arrows.items()
        ),
        *(f"    {machine.name(state)} --> [*]" for state in machine.states if state in ends),
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def consumer_group_section() -> str:
    """The state of a consumer group has no table of its own: it is read off the members."""
    told = []
    for members, older, reached in itertools.product((False, True), repeat=3):
        if (older or reached) and not members:
            continue  # nobody is there to assign to
        member = SimpleNamespace(is_settled_at=lambda _, reached=reached: reached)
        stand_in = SimpleNamespace(
            members={"m": member} if members else {}, epoch=2, target_epoch=1 if older else 2
        )
        state = vars(ConsumerGroup)["state_name"].fget(stand_in)
        told.append((yes(members), yes(older), yes(reached), f"`{state}`"))
    head = (
        "| Has members | Changed since its target was made | All have reached the target | State |"
    )
    return "\n".join(
        [
            "## A consumer group",
            "",
            "The state of a group of the new protocol is that of its members together.",
            "",
            *rows(head, told),
            "",
        ]
    )


def yes(fact: bool) -> str:
    return "yes" if fact else "no"


def rows(head: str, told: Iterable[Iterable[str]]) -> list[str]:
    rule = "|" + " --- |" * (head.count("|") - 1)
    return [head, rule, *(f"| {' | '.join(cells)} |" for cells in told)]


def words(it: Enum) -> str:
    return it.name.lower().replace("_", " ")


def sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if not text or text.endswith(".") else text[0].upper() + text[1:] + "."


def meaning(it: Enum) -> str:
    """What is said of a member of an enumeration: its value, or the text below it."""
    if isinstance(it.value, str) and " " in it.value:
        return it.value
    return _texts(type(it)).get(it.name, "")


def _texts(kind: type[Enum]) -> dict[str, str]:
    """The text below each member, which Python itself throws away."""
    (declared,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(declared, ast.ClassDef)
    found = {}
    for statement, after in itertools.pairwise(declared.body):
        if (
            isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[statement.targets[0].id] = str(after.value.value)
    return found


def main() -> None:
    with open(TARGET, "w", encoding="utf-8") as file:
        file.write(page())


if __name__ == "__main__":
    main()

"""Every generated message beside the facts that it was generated from."""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from pathlib import Path

from codegen.generate import FACTS
from codegen.layout import Class, classes_of
from codegen.names import snake
from codegen.notation import Field, read_facts
from penstock.protocol.message import Message, Part

CORPUS = Path(__file__).parent.parent.parent / "data/protocol/corpus.txt"


@dataclass(frozen=True, eq=False)
class Entry:
    """A message: its module, its facts and its class."""

    module: str
    facts: Class

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def cls(self) -> type[Message]:
        return generated(self.module, self.name)  # type: ignore[return-value]

    def part(self, facts: Class) -> type[Part]:
        return generated(self.module, facts.name)


def generated(module: str, name: str) -> type[Part]:
    """A generated class."""
    found: type[Part] = vars(importlib.import_module(f"penstock.protocol.generated.{module}"))[name]
    assert issubclass(found, Part)
    return found


@functools.cache
def catalogue() -> dict[str, Entry]:
    """All messages by name."""
    entries = {}
    for path in sorted(FACTS.glob("*.facts")):
        for facts in classes_of(read_facts(path.read_text())):
            if facts.is_message:
                entries[facts.name] = Entry(path.stem, facts)
    return entries


def on_the_wire(facts: Class, version: int) -> list[Field]:
    """The fields that `version` carries, in the order of the wire: tagged ones last, by tag."""
    present = [it for it in facts.fields if version in it.versions]
    return sorted(present, key=lambda it: -1 if it.tag is None else it.tag)


def attribute(it: Field) -> str:
    return snake(it.name)

"""The rule by which tests/data/protocol/Corpus.java fills messages, repeated in Python."""

from __future__ import annotations

from typing import Any

from codegen.layout import Class
from codegen.notation import Field
from codegen.own import is_own
from tests.unit.protocol.catalogue import Entry, attribute, on_the_wire


class Fill:
    """A counter rises with every value, in the order of the wire, and decides it."""

    def __init__(self, entry: Entry, version: int, *, nulls: bool) -> None:
        self.entry = entry
        self.version = version
        self.nulls = nulls
        self.count = 0

    def message(self) -> Any:
        return self._struct(self.entry.facts)

    def _struct(self, facts: Class) -> Any:
        fields = {}
        for it in on_the_wire(facts, self.version):
            if is_own(it):
                continue  # Apache has no such field, and ours is left out where it is unset
            null = self.nulls and self.version in it.nullable
            fields[attribute(it)] = None if null else self._value(facts, it)
        return self.entry.part(facts)(**fields)

    def _value(self, facts: Class, it: Field) -> Any:
        if it.is_array:
            return [self._one(facts, it) for _ in range(2)]
        return self._one(facts, it)

    def _one(self, facts: Class, it: Field) -> Any:
        if it.is_struct:
            return self._struct(facts.part(it))
        self.count += 1
        return scalar(it.element, self.count, it.default)


def scalar(kind: str, k: int, default: str | None) -> Any:
    if kind == "bool":
        return default != "true"
    if kind == "int8":
        return 30 + k % 90
    if kind == "int16":
        return -1000 - k
    if kind in ("int32", "uint16"):
        return 40000 + k
    if kind in ("int64", "uint32"):
        return 3_000_000_000 + k
    if kind == "float64":
        return k + 0.5
    if kind == "uuid":
        high, low = (0x1000_0000_0000_0000 + k), (0x2000_0000_0000_0000 + k)
        return high.to_bytes(8, "big") + low.to_bytes(8, "big")
    if kind == "string":
        return text(k)
    assert kind in ("bytes", "records")
    return text(k).encode()


def text(k: int) -> str:
    """Short, outside ASCII, or too long for a length of one byte."""
    if k % 7 == 3:
        return f"\u00e9\u6f22{k}"
    return "x" * 150 + str(k) if k % 13 == 5 else f"s{k}"

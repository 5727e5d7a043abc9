"""Strategies for every message in every version, derived from the facts."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st

from codegen.layout import Class, is_absent_struct
from codegen.notation import Field
from tests.unit.protocol.catalogue import Entry, attribute, on_the_wire


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


# Long enough, now and then, that a compact length takes two bytes.
_TEXT = st.one_of(st.text(max_size=12), st.integers(120, 300).map(lambda n: "y" * n))

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": _signed(8),
    "int16": _signed(16),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": _signed(32),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": _signed(64),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": _TEXT,
    "bytes": st.binary(max_size=40),
    "records": st.binary(max_size=200),
}


@functools.cache
def messages(entry: Entry, version: int) -> st.SearchStrategy[Any]:
    """Messages as `version` can carry them: fields that it lacks have their defaults."""
    return _structs(entry, entry.facts, version)


def _structs(entry: Entry, facts: Class, version: int) -> st.SearchStrategy[Any]:
    fields = {
        attribute(it): _values(entry, facts, it, version) for it in on_the_wire(facts, version)
    }
    return st.builds(entry.part(facts), **fields)


def _values(entry: Entry, facts: Class, it: Field, version: int) -> st.SearchStrategy[Any]:
    if it.is_struct:
        one = _structs(entry, facts.part(it), version)
    else:
        one = SCALARS[it.element]
    if it.is_array:
        sizes = 3 if it.is_struct else 20  # beyond the table of short int32 lists
        one = st.lists(one, max_size=sizes)
    elif is_absent_struct(it):
        # A struct with nothing but defaults is not sent, and comes back as None.
        bare = entry.part(facts.part(it))()
        one = st.one_of(st.none(), one.map(lambda value: None if value == bare else value))
    return st.one_of(st.none(), one) if version in it.nullable else one

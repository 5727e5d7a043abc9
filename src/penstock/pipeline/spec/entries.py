"""How the model says what a key in the file means, once, for reader, schema and reference."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from enum import StrEnum
from typing import Any

from penstock.pipeline.problem import Place


class Shape(StrEnum):
    """How the text of a key is written, where not every text will do."""

    ANY = ""
    NAME = "a name"
    TOPIC = "a topic"
    TOPICS = "topics"
    BROKERS = "addresses of brokers"
    VIEW = "a view"
    DURATION = "a duration"
    SIZE = "a size"
    WATERMARK = "a column and a duration"
    WINDOW = "a window"
    PYTHON = "a name in a Python file"
    SCHEMA = "a schema"
    JDBC = "a JDBC address"


ANYTHING = "*"
"""`alone=ANYTHING`: whatever stands alone in place of all keys is the value of this one."""


def entry(
    meaning: str,
    *,
    default: Any = MISSING,
    choices: tuple[str, ...] = (),
    example: str = "",
    name: str = "",
    secret: bool = False,
    shape: Shape = Shape.ANY,
    names: Shape = Shape.ANY,
    least: int = 0,
    alone: str = "",
) -> Any:
    """A key of the file: a dataclass field that carries its meaning.

    Without a default the key must be given. `name` is how the key is spelt in the file where
    Python has taken the word (`from`, `as`). What is secret shows neither in `repr` nor in
    messages. `shape` says how a text is written, `names` how the keys below it are, `least` how
    small a number may be. `alone` lets the key be left out: its value, or the word given here,
    stands in place of all keys, as `json` does for `{format: json}`.
    """
    metadata = {
        "meaning": meaning,
        "choices": choices,
        "example": example,
        "name": name,
        "secret": secret,
        "shape": shape,
        "names": names,
        "least": least,
        "alone": alone,
    }
    if isinstance(default, (dict, list)):
        return field(default_factory=default.copy, metadata=metadata, repr=not secret)
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A part of the file that knows where it stands, for messages about it."""

    place: Place = field(default=Place(""), compare=False, repr=False)

"""How the model says what a key in the file means, once, for reader, schema and reference."""

from __future__ import annotations

from dataclasses import MISSING, field
from typing import Any


def entry(
    meaning: str,
    *,
    default: Any = MISSING,
    choices: tuple[str, ...] = (),
    example: str = "",
    name: str = "",
    secret: bool = False,
) -> Any:
    """A key of the file: a dataclass field that carries its meaning.

    Without a default the key must be given. `name` is how the key is spelt in the file where
    Python has taken the word (`from`, `as`). What is secret never shows in `repr`.
    """
    metadata = {"meaning": meaning, "choices": choices, "example": example, "name": name}
    if isinstance(default, (dict, list)):
        return field(default_factory=default.copy, metadata=metadata, repr=not secret)
    return field(default=default, metadata=metadata, repr=not secret)

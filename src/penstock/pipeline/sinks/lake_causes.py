"""What Java says was the matter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def causes(failure: BaseException) -> Iterator[Any]:
    """The Java exceptions behind one of Python's, each the cause of the one before it."""
    thrown = getattr(failure, "java_exception", None) or getattr(failure, "_origin", None)
    while thrown is not None:
        yield thrown
        thrown = thrown.getCause()


def is_a(thrown: Any, name: str) -> bool:
    """Whether an exception is of this class of Java's, or one below it."""
    kind = thrown.getClass()
    while kind is not None:
        if kind.getName() == name:
            return True
        kind = kind.getSuperclass()
    return False

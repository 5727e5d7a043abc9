"""What a check found wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from penstock.testing.history.operations import Operation, Place

if TYPE_CHECKING:
    from penstock.testing.history.history import History


@dataclass(slots=True, frozen=True)
class Verdict:
    """One promise broken, and the operations that show it."""

    name: str
    """Which promise: the name of the check's verdict, always the same for the same fault."""
    says: str
    """What happened, in a sentence."""
    operations: tuple[Operation, ...] = ()
    place: Place | None = None
    offset: int | None = None
    """Where to look, if it is somewhere."""


Check: TypeAlias = "Callable[[History], Iterator[Verdict]]"
"""A check looks at a history and yields what it finds wrong: nothing, if all is well."""

"""ACLs as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.operations import Operation
from penstock.model.resources import PatternType, Permission, ResourceType

if TYPE_CHECKING:
    from enum import IntEnum


def in_words(
    resource_type: int,
    resource_name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> str:
    """One entry, in one line, whatever its numbers are."""
    return (
        f"{word(Permission, permission)} {principal} from {host} to {word(Operation, operation)} "
        f"{word(ResourceType, resource_type)}:{word(PatternType, pattern_type)}:{resource_name}"
    )


def word(kind: type[IntEnum], number: int) -> str:
    """The name of a number; UNKNOWN if it has none."""
    return kind(number).name if number in set(kind) else "UNKNOWN"

"""What becomes of a column of bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


@dataclass(frozen=True, slots=True)
class Decoded:
    """How a column of bytes is read.

    `parsed` is the costly part. Who puts it into a column of its own, and gives that column to the
    other two, has every record parsed once; `value` and `reason` are for those who need not care.
    """

    parsed: Column
    value_of: Callable[[Column], Column]
    """A struct where the format has fields; null where the bytes are null."""
    reason_of: Callable[[Column], Column]
    """Why the value cannot be read; null where it can."""
    kind: DataType
    """The type of the value."""

    @property
    def value(self) -> Column:
        """The value, in one expression."""
        return self.value_of(self.parsed)

    @property
    def reason(self) -> Column:
        """The reason, in one expression."""
        return self.reason_of(self.parsed)


def itself(parsed: Column) -> Column:
    """Where what was parsed is the value."""
    return parsed

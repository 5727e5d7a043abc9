"""What becomes of a column of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


@dataclass(frozen=True, slots=True)
class Decoded:
    """How a column of bytes is read: an expression of its value, and one of what is wrong."""

    value: Column
    """A struct where the format has fields; null where the bytes are null."""
    reason: Column
    """Why the value cannot be read; null where it can."""
    kind: DataType
    """The type of `value`."""

"""Lines in the combined log format, as web servers write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LINE = r'^(\S+) \S+ \S+ \[([^\]]+)\] "([A-Z]+) (\S+) [^"]*" (\S+) (\S+) "[^"]*" "([^"]*)"$'
NAMES = ("client", "at", "method", "path", "status", "bytes", "agent")


def parse(lines: DataFrame) -> DataFrame:
    """One column per part of a line.

    A line of another shape leaves `at` as it is, whole: turning it into a time then fails, and the
    record goes where records go that cannot be read.
    """
    from pyspark.sql import functions as F

    fits = F.col("value").rlike(LINE)
    parts = {
        name: F.when(fits, F.regexp_extract("value", LINE, number))
        for number, name in enumerate(NAMES, 1)
    }
    parts["at"] = F.when(
        fits,
        F.date_format(
            F.to_timestamp(F.regexp_extract("value", LINE, 2), "dd/MMM/yyyy:HH:mm:ss Z"),
            "yyyy-MM-dd HH:mm:ss",
        ),
    ).otherwise(F.col("value"))
    position = F.expr("cast(filter(_headers, h -> h.key = 'position')[0].value AS string)")
    return lines.withColumns({**parts, "position": position})

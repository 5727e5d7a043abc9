"""Lines of a web server's log as columns."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

# The client, the time, the method, the path, the status, the bytes, the milliseconds.
LINE = r'^(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) (\S+) [^"]*" (\d{3}) (\d+|-) (\d+)$'


def parse(rows: DataFrame) -> DataFrame:
    """The parts of each line as text; of a line that is none, `at` keeps the line itself.

    The cast that follows finds that it is no time, and sends it to the dead letters.
    """
    matched = F.regexp_extract("value", LINE, 0) != ""
    time = F.to_timestamp(F.regexp_extract("value", LINE, 2), "dd/MMM/yyyy:HH:mm:ss Z")
    size = F.regexp_extract("value", LINE, 6)
    return rows.select(
        F.when(matched, time.cast("string")).otherwise(F.col("value")).alias("at"),
        F.regexp_extract("value", LINE, 1).alias("client"),
        F.regexp_extract("value", LINE, 3).alias("method"),
        F.regexp_extract("value", LINE, 4).alias("path"),
        F.when(matched, F.regexp_extract("value", LINE, 5)).alias("status"),
        F.when(matched & (size != "-"), size).alias("bytes"),
        F.when(matched, F.regexp_extract("value", LINE, 7)).alias("millis"),
        "_file",
        "_line",
        "_origin",
    )

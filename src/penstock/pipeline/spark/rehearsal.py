"""A first run of Spark, with nobody watching: `python -m ...rehearsal LOG OPTION...`.

Does a little of what pipelines do, so that Java, told so by the options, keeps the classes for it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.pipeline.problem import Problem
from penstock.pipeline.spark.session import open_session
from penstock.pipeline.spark.settings import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

END_SECONDS_MAX = 120
BATCH_SECONDS_MAX = 60


def rehearse(log: Path, java_options: Sequence[str]) -> None:
    """Run Spark once, and wait until its Java has ended and written the classes."""
    spark = open_session(
        "rehearsal",
        master="local[2]",
        settings={"spark.driver.extraJavaOptions": " ".join(map(quoted, java_options))},
        log=log,
    )
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    try:
        with tempfile.TemporaryDirectory() as folder:
            _work(spark, Path(folder))
        spark.stop()
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()  # Java ends when nobody can write to it any more
        gateway.proc.wait(END_SECONDS_MAX)


def _work(spark: SparkSession, folder: Path) -> None:
    """Lines of JSON, streamed into Parquet and counted by window."""
    lines = folder / "lines"
    lines.mkdir()
    (lines / "1.json").write_text('{"at": "2026-01-01T00:00:00Z", "word": "a", "n": 1}\n')
    schema = "at timestamp, word string, n long"
    rows = spark.readStream.schema("value string").text(str(lines))
    parsed = rows.selectExpr(f"from_json(value, '{schema}') as row").select("row.*")
    parsed.createOrReplaceTempView("rows")
    counted = spark.sql(
        "select window(at, '1 minute').start as at, word, count(*) as n, sum(n) as total "
        "from rows where word is not null group by window(at, '1 minute'), word"
    )
    for name, query in (
        ("lake", parsed.writeStream.format("parquet").option("path", str(folder / "lake"))),
        ("counts", counted.writeStream.format("noop").outputMode("update")),
    ):
        running = (
            query.option("checkpointLocation", str(folder / name / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        running.awaitTermination(BATCH_SECONDS_MAX)
    spark.read.parquet(str(folder / "lake")).groupBy("word").count().collect()


if __name__ == "__main__":
    try:
        rehearse(Path(sys.argv[1]), sys.argv[2:])
    except Problem as problem:
        sys.exit(str(problem.what))

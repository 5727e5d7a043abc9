"""The process that Spark forks its Python workers from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.spark.workers import without_archives

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        (
            ["/p/pyspark/python/lib/pyspark.zip", "/p/pyspark/python/lib/py4j-src.zip", "/p"],
            ["/p"],
        ),
        (["/p/pyspark/jars/spark-core.jar", "/p", "/mine.zip"], ["/p", "/mine.zip"]),
        (["/opt/spark/python/lib/pyspark.zip", "/p"], ["/opt/spark/python/lib/pyspark.zip", "/p"]),
        ([], []),
    ],
    ids=["copies of what is installed", "jars", "another spark than the installed one", "nothing"],
)
def test_jars_and_copies_of_the_installed_pyspark_leave_the_path(
    path: list[str], kept: list[str]
) -> None:
    assert without_archives(path) == kept


def test_workers_read_no_archive_before_each_task(spark: SparkSession) -> None:
    """Spark's own workers read the index of three of them, for a tenth of a second."""

    def look(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        import gc
        import sys

        import pyarrow

        for _ in batches:
            pass
        read = [each for each in sys.path_importer_cache if each.endswith((".zip", ".jar"))]
        yield pyarrow.RecordBatch.from_pydict(
            {"archives": [len(read)], "unseen_by_gc": [gc.get_freeze_count()]}
        )

    (told,) = (
        spark.range(1).coalesce(1).mapInArrow(look, "archives long, unseen_by_gc long").collect()
    )
    assert told.archives == 0
    assert told.unseen_by_gc > 10_000

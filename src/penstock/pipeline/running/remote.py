"""Small files where only Spark can reach: HDFS, object stores, whatever Hadoop has clients for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.pipeline.checkpoint import LOCAL, Files, is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def files_at(root: str, spark: SparkSession) -> Files:
    """The files of a checkpoint with this root."""
    return SparkFiles(spark) if is_remote(root) else LOCAL


class SparkFiles:
    """Files through the Hadoop clients in Spark's Java."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        self._settings = context._jsc.hadoopConfiguration()

    def read(self, path: str) -> str | None:
        """What the file holds; None if there is none."""
        place, system = self._find(path)
        if not system.exists(place):
            return None
        stream = system.open(place)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Write the whole file: stores of objects show it when it is closed."""
        place, system = self._find(path)
        stream = system.create(place, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder of this name."""
        place, system = self._find(path)
        return bool(system.exists(place))

    def _find(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place, place.getFileSystem(self._settings)

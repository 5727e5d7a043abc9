"""Files that grow, as a streaming source of Spark: see `tails` for what is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from penstock.pipeline.sources import tails
from penstock.pipeline.sources.lines import LINES_TYPE, read_lines
from penstock.pipeline.sources.tails import Lost, Range, Tail

if TYPE_CHECKING:
    from pyarrow import RecordBatch  # type: ignore[import-untyped]
    from pyspark.sql.types import StructType

NAME = "penstock_growing"


class GrowingFiles(DataSource):
    """Options: `files`, a path or glob; `bytes_max` of a batch, 0 for no limit; `data_loss`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return LINES_TYPE

    def streamReader(self, schema: StructType) -> GrowingReader:  # noqa: ARG002
        return GrowingReader(
            self.options["files"],
            int(self.options.get("bytes_max", "0")) or None,
            self.options.get("data_loss", "fail") == "continue",
        )


@dataclass
class Pieces(InputPartition):
    """What one task reads."""

    pieces: Sequence[Range]


class GrowingReader(DataSourceStreamReader):
    """Decides on the driver what a batch is, and reads it on the executors."""

    def __init__(self, files: str, bytes_max: int | None, may_lose: bool) -> None:
        self._files = files
        self._bytes_max = bytes_max
        self._may_lose = may_lose
        self._reached: Mapping[str, Tail] | None = None

    def initialOffset(self) -> dict[str, object]:
        return tails.dump({})

    def latestOffset(self) -> dict[str, object]:
        # Spark plans the last batch of the checkpoint before it asks for a new one: `partitions`
        # has told where to go on, unless there is no checkpoint yet.
        self._reached = tails.advance(self._files, self._reached or {}, self._bytes_max)
        return tails.dump(self._reached)

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[Pieces]:
        reached = tails.load(end)
        if self._reached is None:
            self._reached = reached
        return [Pieces(each) for each in tails.pack(tails.ranges(tails.load(start), reached))]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        assert isinstance(partition, Pieces)
        for piece in partition.pieces:
            try:
                file = tails.open_tail(piece.tail)
            except Lost:
                if self._may_lose:
                    continue
                raise
            with file:
                file.seek(piece.start)
                yield from read_lines(file, piece.tail.path, piece.first_line, piece.bytes)

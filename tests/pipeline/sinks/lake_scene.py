"""What tests of sinks share: a pipeline around one sink, and readers that know nothing of ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.pipeline.checkpoint import open_checkpoint
from penstock.pipeline.context import Context
from penstock.pipeline.problem import Place
from penstock.pipeline.spec.model import Pipeline, Sink
from penstock.pipeline.spec.sources import GeneratorSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def context_of(
    spark: SparkSession | None,
    folder: Path,
    sink: Sink,
    *,
    name: str = "orders",
    settings: Mapping[str, str] | None = None,
) -> Context:
    """A pipeline whose file would be in `folder`, with one sink, `out`."""
    pipeline = Pipeline(
        name=name,
        sources={"made": GeneratorSource(generate=1)},
        sinks={"out": sink},
        spark=settings or {},
        place=Place(str(folder / "orders.yml")),
    )
    return Context(spark, pipeline, open_checkpoint(pipeline))  # type: ignore[arg-type]


def lake_rows(lake: Path, *columns: str) -> list[tuple[Any, ...]]:
    """What pyarrow reads from a folder, sorted: a reader with no idea of Penstock."""
    import pyarrow.dataset as ds  # type: ignore[import-untyped]

    table = ds.dataset(lake, format="parquet", partitioning="hive").to_table(list(columns) or None)
    return sorted(tuple(row.values()) for row in table.to_pylist())


def lake_files(lake: Path) -> list[str]:
    """The data files that readers see, relative to the lake."""
    return sorted(
        str(path.relative_to(lake))
        for path in lake.rglob("*.parquet")
        if not path.relative_to(lake).parts[0].startswith("_")
    )

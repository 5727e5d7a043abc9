"""Which catalog a table of Iceberg is in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks.lake_path import absolute
from penstock.pipeline.spec.model import Pipeline
from penstock.pipeline.spec.sinks import IcebergSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = "org.apache.iceberg.spark.SparkCatalog"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
SETTING = "spark.sql.catalog."


def iceberg_settings(pipeline: Pipeline) -> dict[str, str]:
    """Settings of Spark with which all tables that the pipeline writes are found.

    A sink with a `warehouse` gets a catalog of its own over that folder; for the others the file's
    own `spark` settings say where tables are.
    """
    settings: dict[str, str] = {}
    for name, spec in pipeline.sinks.items():
        if isinstance(spec, IcebergSink):
            settings["spark.sql.extensions"] = EXTENSIONS
            settings.update(catalog_settings(pipeline, name, spec))
    return settings


def catalog_settings(pipeline: Pipeline, name: str, spec: IcebergSink) -> dict[str, str]:
    """The settings of one sink's own catalog; none if it has no `warehouse`."""
    if not spec.warehouse:
        return {}
    catalog = SETTING + catalog_name(name)
    return {
        catalog: CATALOG,
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": absolute(pipeline, spec.warehouse),
    }


def catalog_name(sink: str) -> str:
    """What a sink's own catalog is called in Spark."""
    return "penstock_" + re.sub(r"\W", "_", sink)


def table_name(spark: SparkSession, sink: str, spec: IcebergSink) -> str:
    """The table's full name, in a catalog that Spark knows."""
    parts = spec.iceberg.split(".")
    if spec.warehouse:
        if len(parts) < 2:
            raise Problem(
                f"iceberg is {spec.iceberg!r}, which has no namespace",
                f"Write it as shop.{spec.iceberg}.",
                spec.place,
            )
        return f"{catalog_name(sink)}.{spec.iceberg}"
    known = _catalogs(spark)
    if parts[0] in known or "spark.sql.defaultCatalog" in known or "spark_catalog" in known:
        return spec.iceberg
    raise Problem(
        f"no catalog is configured in which {spec.iceberg!r} could be",
        "Give the sink a `warehouse`, or name a catalog under `spark`, such as "
        "spark.sql.catalog.lake: org.apache.iceberg.spark.SparkCatalog, and write "
        f"lake.{spec.iceberg}.",
        spec.place,
    )


def _catalogs(spark: SparkSession) -> set[str]:
    settings: Mapping[str, str] = spark.conf.getAll
    found = {key.removeprefix(SETTING) for key in settings if key.startswith(SETTING)}
    if "spark.sql.defaultCatalog" in settings:
        found.add("spark.sql.defaultCatalog")
    return found

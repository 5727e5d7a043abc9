"""The SQL by which tables of Iceberg are made and merged into."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.pipeline.sinks.lake_rows import quoted
from penstock.pipeline.spec.sinks import IcebergSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

UPSERT_PROPERTIES = {
    # To change a row, note that it is gone and write it anew: small batches rewrite no large file.
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
}

_WIDER = {"byte": "integer", "short": "integer"}
"""Types that Iceberg does not have, and those that it takes instead."""


def create_table(
    spark: SparkSession, table: str, columns: StructType, spec: IcebergSink
) -> tuple[str, ...]:
    """The statements that make a table and its namespace."""
    jvm: Any = spark.sparkContext._jvm
    ddl = jvm.org.apache.spark.sql.types.DataType.fromJson(columns.json()).toDDL()
    create = f"CREATE TABLE IF NOT EXISTS {table} ({ddl}) USING iceberg"
    if spec.partition_by:
        create += f" PARTITIONED BY ({', '.join(spec.partition_by)})"
    defaults = UPSERT_PROPERTIES if spec.mode == "upsert" else {}
    properties = {**defaults, **spec.properties}
    if properties:
        listed = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in properties.items())
        create += f" TBLPROPERTIES ({listed})"
    return f"CREATE NAMESPACE IF NOT EXISTS {table.rpartition('.')[0]}", create


def merge_into(
    table: str, view: str, columns: Sequence[str], key: Sequence[str], delete_when: str
) -> str:
    """Rows of the view in place of those with the same key."""
    same = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in key)
    changes = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in columns)
    names = ", ".join(quoted(name) for name in columns)
    values = ", ".join(f"s.{quoted(name)}" for name in columns)
    source, delete, insert = view, "", "WHEN NOT MATCHED"
    if delete_when:
        source = f"(SELECT *, coalesce({delete_when}, false) AS _gone FROM {view})"
        delete = "WHEN MATCHED AND s._gone THEN DELETE "
        insert = "WHEN NOT MATCHED AND NOT s._gone"
    return (
        f"MERGE INTO {table} t USING {source} s ON {same} {delete}"
        f"WHEN MATCHED THEN UPDATE SET {changes} {insert} THEN INSERT ({names}) VALUES ({values})"
    )


def storable(schema: StructType) -> StructType:
    """The schema as a table of Iceberg will show it."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(_widen(json.loads(schema.json())))


def _widen(part: Any) -> Any:
    if isinstance(part, dict):
        return {
            key: _WIDER.get(value, value)
            if key in ("type", "elementType", "keyType", "valueType") and isinstance(value, str)
            else _widen(value)
            for key, value in part.items()
        }
    return [_widen(each) for each in part] if isinstance(part, list) else part


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

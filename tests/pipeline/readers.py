"""Those who read what pipelines write, and know nothing of who wrote it: how much is there now."""

from __future__ import annotations

import json
import os
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.pipeline.postgres import Postgres


class TopicCount:
    """A reader of a topic that stays, and counts what is committed."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._reader = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "watch",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._reader.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
        self._found = 0

    def __call__(self) -> int:
        while some := self._reader.consume(10_000, 0.2):
            self._found += sum(each.error() is None for each in some)
        return self._found

    def close(self) -> None:
        self._reader.close()


def parquet_count(lake: Path) -> int:
    """The rows of all files that a listing finds now."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    rows = 0
    for folder, inner, names in os.walk(lake):
        inner[:] = [name for name in inner if not name.startswith("_")]
        found = [pq.read_metadata(Path(folder, name)) for name in names if name[0] not in "._"]
        rows += sum(int(each.num_rows) for each in found)
    return rows


def iceberg_count(table: Path) -> int:
    """The rows of the newest snapshot, by the table's own files."""
    try:
        version = (table / "metadata" / "version-hint.text").read_text().strip()
        found = json.loads((table / "metadata" / f"v{version}.metadata.json").read_text())
    except FileNotFoundError:
        return 0
    current = found.get("current-snapshot-id")
    for snapshot in found.get("snapshots", []):
        if snapshot["snapshot-id"] == current:
            return int(snapshot["summary"]["total-records"])
    return 0


def table_count(postgres: Postgres, table: str) -> int:
    """The rows of a table of the database; none if it is not there yet."""
    found = postgres.query(
        f"SELECT (xpath('/row/c/text()', query_to_xml('SELECT count(*) AS c FROM {table}', "
        f"false, true, '')))[1] FROM pg_tables WHERE tablename = '{table}'"
    )
    return int(found[0][0]) if found else 0

"""The SQL by which a staged batch becomes part of a table."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

BATCHES = "penstock_batches"
"""The table, beside the one that is written, which remembers each writer's last batch."""

ROW = "penstock_row"
"""A number that each row of a batch has in its stage. Two tasks may have written the same rows,
when one of them committed and died before it could say so."""


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements for one table; `table` and the rest are written as SQL wants them."""

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    quote: str = '"'
    postgresql: bool = True

    @property
    def batches(self) -> str:
        return self._beside(BATCHES)

    def stage_name(self, writer: str, batch: int) -> str:
        """A table that nobody else writes to: not even a task that should have died."""
        return self._beside(f"{stage_prefix(writer)}{batch}_{uuid.uuid4().hex[:6]}")

    def create_stage(self, stage: str) -> str:
        """An empty table whose columns have the types of those that will be merged into."""
        # What a crash of the database takes is staged again: no need to log it.
        kind = "UNLOGGED TABLE" if self.postgresql else "TABLE"
        chosen = f"{self.listed(self.columns)}, CAST(0 AS BIGINT) AS {ROW}"
        return f"CREATE {kind} {stage} AS SELECT {chosen} FROM {self.table} WHERE 1 = 0"

    def twice(self, stage: str) -> str:
        """How many rows of the stage are there more than once."""
        return f"SELECT count(*) - count(DISTINCT {ROW}) FROM {stage}"

    def merge(self, stage: str) -> tuple[str, ...]:
        """Rows of the stage into the table, in place of those with the same key."""
        columns = self.listed(self.columns)
        insert = f"INSERT INTO {self.table} ({columns}) SELECT {columns} FROM {stage}"
        if not self.key:
            return (insert,)
        if self.postgresql:
            return (f"{insert} ON CONFLICT ({self.listed(self.key)}) {self._update()}",)
        same = " AND ".join(
            f"{stage}.{self.quoted(name)} = {self.table}.{self.quoted(name)}" for name in self.key
        )
        replaced = f"DELETE FROM {self.table} WHERE EXISTS (SELECT 1 FROM {stage} WHERE {same})"
        return (replaced, insert)

    def create_batches(self) -> str:
        return (
            f"CREATE TABLE {self.batches} (writer VARCHAR(400) NOT NULL PRIMARY KEY, "
            "batch BIGINT NOT NULL, written_at TIMESTAMP NOT NULL)"
        )

    def listed(self, names: Sequence[str]) -> str:
        return ", ".join(self.quoted(name) for name in names)

    def quoted(self, name: str) -> str:
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def _update(self) -> str:
        rest = [name for name in self.columns if name not in self.key]
        if not rest:
            return "DO NOTHING"
        changes = (f"{self.quoted(name)} = EXCLUDED.{self.quoted(name)}" for name in rest)
        return f"DO UPDATE SET {', '.join(changes)}"

    def _beside(self, name: str) -> str:
        """A name in the schema of the table."""
        schema, dot, _ = self.table.rpartition(".")
        return f"{schema}{dot}{name}"


def stage_prefix(writer: str) -> str:
    """How the names of a writer's stages begin: databases allow some 60 characters in all."""
    return f"penstock_stage_{hashlib.sha256(writer.encode()).hexdigest()[:10]}_"

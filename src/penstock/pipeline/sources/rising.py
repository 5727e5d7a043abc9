"""A table of PostgreSQL as a streaming source of Spark, in the order of a column that rises.

The position is the largest value of the column that was taken. A batch is the rows above one
position and not above the next, both of which stand in Spark's checkpoint: a batch that is read
again gives the same rows. All rows of equal value belong to one batch, even if that makes it larger
than its limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    from pyarrow import RecordBatch  # type: ignore[import-untyped]
    from pyspark.sql.types import StructType

FETCH_ROWS = 20_000
WAIT_SECONDS_MAX = 30

SPELT = {"ApplicationName": "application_name", "connectTimeout": "connect_timeout"}
"""How libpq spells what the JDBC driver calls otherwise."""


@dataclass(frozen=True, slots=True)
class Table:
    """What is read, and how to get there."""

    connection: dict[str, str] = field(repr=False)
    """libpq's parameters, the password among them: they travel inside the pickle only."""
    source: str
    """The table, or a query in brackets."""
    column: str
    columns: tuple[str, ...]
    """The expressions that are selected, in the order of the schema."""
    start: str
    lag: str
    rows_max: int | None

    def select(self, start: str | None, end: str) -> tuple[str, list[str]]:
        """The rows of a batch."""
        # A value has no type yet: the server gives it that of the column it is compared with.
        above, values = self._above(start)
        sql = (
            f"SELECT {', '.join(self.columns)} FROM {self._from()} "
            f"WHERE {above} AND {self._quoted} <= %s ORDER BY {self._quoted}"
        )
        return sql, [*values, end]

    def next_end(self, start: str | None) -> tuple[str, list[str]]:
        """The position after the next batch, as text; null if there is nothing new."""
        above, values = self._above(start)
        within = f"SELECT {self._quoted} AS at FROM {self._from()} WHERE {above}"
        if self.lag:
            within += f" AND {self._quoted} <= {self._settled()}"
            values.append(self.lag)
        if self.rows_max is not None:
            within += f" ORDER BY 1 LIMIT {self.rows_max}"
        return f"SELECT max(at)::text FROM ({within}) AS batch", values

    def _settled(self) -> str:
        """Up to where rows are old enough. A duration and a difference are taken away alike."""
        newest = f"(SELECT max({self._quoted}) FROM {self._from()})"
        if self.lag.replace(".", "", 1).isdigit():
            return f"{newest} - %s::numeric"
        return f"least({newest}, now()) - %s::interval"

    def _above(self, start: str | None) -> tuple[str, list[str]]:
        if start is None and not self.start:
            return f"{self._quoted} IS NOT NULL", []
        return f"{self._quoted} > %s", [self.start if start is None else start]

    def _from(self) -> str:
        return from_clause(self.source)

    @property
    def _quoted(self) -> str:
        # With the table's name: a column that comes as text must not be put in the order of texts.
        return f"source.{quoted(self.column)}"


def from_clause(source: str) -> str:
    """A table, or a query in brackets, under a name; percent signs in it mean just themselves."""
    return source.replace("%", "%%") + " AS source"


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


class RisingTable(DataSource):
    """A source of one table, which a subclass names: no secret stands in Spark's options."""

    table: Table
    own_name: str
    own_schema: str

    @classmethod
    def name(cls) -> str:
        return cls.own_name

    def schema(self) -> str:
        return self.own_schema

    def streamReader(self, schema: StructType) -> RisingReader:
        return RisingReader(self.table, schema)


@dataclass
class Span(InputPartition):
    """The rows of a batch."""

    start: str | None
    end: str


class RisingReader(DataSourceStreamReader):
    """Asks on the driver how far a batch goes, and reads it on an executor."""

    def __init__(self, table: Table, schema: StructType) -> None:
        self._table = table
        self._schema = schema
        self._reached: str | None = None
        self._connection: Any = None

    def initialOffset(self) -> dict[str, str | None]:
        return {"at": None}

    def latestOffset(self) -> dict[str, str | None]:
        import psycopg

        try:
            self._connection = self._connection or connect(self._table.connection)
            found = self._connection.execute(*self._table.next_end(self._reached)).fetchone()
        except psycopg.Error:
            self.stop()
            raise
        if found[0] is not None:
            self._reached = found[0]
        return {"at": self._reached}

    def partitions(
        self, start: dict[str, str | None], end: dict[str, str | None]
    ) -> Sequence[InputPartition]:
        if self._reached is None:
            self._reached = end["at"]
        if end["at"] is None or end == start:
            return []
        return [Span(start["at"], end["at"])]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, Span)
        schema = to_arrow_schema(self._schema)
        with (
            connect(self._table.connection) as connection,
            connection.transaction(),
            connection.cursor("penstock") as cursor,
        ):
            cursor.execute(*self._table.select(partition.start, partition.end))
            while rows := cursor.fetchmany(FETCH_ROWS):
                columns = zip(*rows, strict=True)
                arrays = [
                    pa.array(values, each.type)
                    for values, each in zip(columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def connect(connection: dict[str, str]) -> Any:
    """A connection that only reads, in UTC."""
    import psycopg

    own = {"connect_timeout": str(WAIT_SECONDS_MAX), "application_name": "penstock"}
    options = "-c timezone=UTC -c default_transaction_read_only=on"
    given = f"{connection.get('options', '')} {options}".strip()
    settings: dict[str, Any] = {**own, **connection, "options": given}
    return psycopg.connect(**settings, autocommit=True)


def connection_of(
    address: str, user: str, password: str, options: dict[str, str]
) -> dict[str, str]:
    """libpq's parameters of a JDBC address."""
    parts = urlsplit(address.removeprefix("jdbc:"))
    given = {**dict(parse_qsl(parts.query)), **options}
    found = {
        "host": unquote(parts.hostname or "localhost"),
        "port": str(parts.port or 5432),
        "dbname": unquote(parts.path.lstrip("/")),
    }
    if given.pop("ssl", "").lower() == "true":
        found["sslmode"] = "require"
    if schema := given.pop("currentSchema", ""):
        found["options"] = f"-c search_path={schema}"
    found |= {SPELT.get(name, name): value for name, value in given.items()}
    return found | {key: text for key, text in (("user", user), ("password", password)) if text}

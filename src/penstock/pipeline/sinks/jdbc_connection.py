"""Connections to a database from the driver, through the same JDBC driver that executors use."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.sinks.lake_causes import causes, is_a

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADVICE = {
    "42P10": "Give the table a unique index over exactly the columns of `key`.",
    "08": "See that the database runs and can be reached from here.",
    "28": "See `user` and `password`.",
    "3D": "Create the database, or correct the address.",
    "53": "The database lacks room, memory or connections: make some; the batch is written again.",
    "57": "The database is shutting down or starting; the batch is written again.",
    "42": "See the table's columns and what the user may do.",
    "22": "A value does not fit its column: cast it in a step, or widen the column.",
    "23": "A row breaks a rule of the table: filter such rows, or change the rule.",
}
"""What to do about an error, by its SQLSTATE or the class of it."""

OTHERWISE = "The batch was not written, and is written again when the pipeline goes on."


@dataclass(frozen=True, slots=True)
class Database:
    """Where a table is, and who we are there."""

    spark: SparkSession
    url: str
    properties: Mapping[str, str] = field(repr=False)
    place: Place

    @contextlib.contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection with a transaction of its own, which is lost unless it is committed."""
        with self.told():
            connection = Connection(self._open())
            try:
                yield connection
            finally:
                connection.close()

    def for_spark(self) -> dict[str, str]:
        """The properties with which Spark's own reader and writer connect."""
        driver = self._driver(self.spark.sparkContext._jvm).getClass().getName()
        return {"driver": str(driver), **self.properties}

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Tell what the database refuses in its words; what is not the database's is passed on."""
        try:
            yield
        except Problem:
            raise
        except Exception as failure:
            cause = _sql_exception(failure)
            if cause is None:
                raise
            raise self._problem(cause) from None

    def _open(self) -> Any:
        jvm: Any = self.spark.sparkContext._jvm
        properties = jvm.java.util.Properties()
        for key, value in self.properties.items():
            properties.setProperty(key, value)
        opened = self._driver(jvm).connect(self.url, properties)
        opened.setAutoCommit(False)
        return opened

    def _driver(self, jvm: Any) -> Any:
        # DriverManager would look only where Java's own classes are, not in Spark's further jars.
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        kind = loader.loadClass("java.sql.Driver")
        drivers = jvm.java.util.ServiceLoader.load(kind, loader).iterator()
        while drivers.hasNext():
            driver = drivers.next()
            if driver.acceptsURL(self.url):
                return driver
        raise Problem(
            f"no JDBC driver here knows {redacted(self.url)}",
            "Correct the address, or add the driver's jar: spark: {spark.jars: driver.jar}.",
            self.place,
        )

    def _problem(self, cause: Any) -> Problem:
        state = str(cause.getSQLState() or "")
        said = str(cause.getMessage() or cause.getClass().getName()).strip()
        password = self.properties.get("password")
        if password:
            said = said.replace(password, "***")
        return Problem(
            f"{redacted(self.url)}: {said}",
            ADVICE.get(state) or ADVICE.get(state[:2], OTHERWISE),
            self.place,
        )


class Connection:
    """A little of java.sql.Connection, with Python's types."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self.quote = str(opened.getMetaData().getIdentifierQuoteString()).strip() or '"'
        self.product = str(opened.getMetaData().getDatabaseProductName())

    def execute(self, sql: str, *values: str | int) -> int:
        """Run a statement; how many rows it changed."""
        statement = self._prepared(sql, values)
        try:
            return int(statement.executeUpdate())
        finally:
            statement.close()

    def rows(self, sql: str, *values: str | int) -> list[tuple[Any, ...]]:
        """The rows of a query: meant for few."""
        statement = self._prepared(sql, values)
        try:
            found = statement.executeQuery()
            width = found.getMetaData().getColumnCount()
            rows = []
            while found.next():
                rows.append(tuple(found.getObject(n) for n in range(1, width + 1)))
            return rows
        finally:
            statement.close()

    def columns(self, table: str) -> list[str] | None:
        """The columns of a table; None if it is not there."""
        try:
            statement = self._prepared(f"SELECT * FROM {table} WHERE 1 = 0", ())
            described = statement.executeQuery().getMetaData()
            count = described.getColumnCount()
            return [str(described.getColumnName(n)) for n in range(1, count + 1)]
        except Exception as failure:
            cause = _sql_exception(failure)
            # 42P01 is PostgreSQL's, 42S02 that of ODBC, MySQL and SQL Server.
            if cause is None or str(cause.getSQLState()) not in ("42P01", "42S02", "3F000"):
                raise
            self._opened.rollback()
            return None

    def tables(self, prefix: str) -> list[str]:
        """Tables whose names begin like this, with their schemas."""
        found = self._opened.getMetaData().getTables(None, None, f"{prefix}%", None)
        tables = []
        while found.next():
            schema, name = found.getString("TABLE_SCHEM"), found.getString("TABLE_NAME")
            tables.append(f"{schema}.{name}" if schema else str(name))
        return tables

    def commit(self) -> None:
        self._opened.commit()

    def close(self) -> None:
        """Give the connection up, and what was not committed with it."""
        with contextlib.suppress(Exception):
            # A connection that broke cannot be rolled back; the database does it.
            self._opened.rollback()
        self._opened.close()

    def _prepared(self, sql: str, values: tuple[str | int, ...]) -> Any:
        statement = self._opened.prepareStatement(sql)
        for number, value in enumerate(values, 1):
            if isinstance(value, int):
                statement.setLong(number, value)
            else:
                statement.setString(number, value)
        return statement


def redacted(url: str) -> str:
    """An address without the password that may be in it."""
    hidden = re.sub(r"(?i)(password=)[^&;]*", r"\1***", url)
    return re.sub(r"//([^/:@]+):[^/@]*@", r"//\1:***@", hidden)


def _sql_exception(failure: BaseException) -> Any:
    """The database's own exception within one of Spark's, if there is one."""
    for thrown in causes(failure):
        if is_a(thrown, "java.sql.SQLException"):
            return _last(thrown)
    return None


def _last(thrown: Any) -> Any:
    """A batch of inserts reports itself first, with all its values, and the reason behind it."""
    following = thrown.getNextException()
    return thrown if following is None else _last(following)

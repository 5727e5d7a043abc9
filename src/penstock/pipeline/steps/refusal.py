"""What Spark refuses, told in the words of the pipeline file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from penstock.pipeline.problem import Place, Problem

NEAREST_MAX = 3
"""How many names to propose."""

# PySpark would write a stack trace to the terminal for each of these, besides raising.
for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_name).disabled = True


@contextmanager
def told(
    place: Place, *, columns: Iterable[str] = (), views: Iterable[str] = (), lines_before: int = 0
) -> Iterator[None]:
    """Turn what Spark refuses inside into a Problem at `place`.

    `columns` and `views` are the names that could have been meant. `lines_before` is how many lines
    stand before the user's own in the statement that Spark saw.
    """
    try:
        yield
    except PySparkException as refused:
        raise _problem(refused, place, list(columns), list(views), lines_before) from None
    except Py4JJavaError as failed:
        raise Problem(f"Spark cannot do this: {told_by(failed)}", "", place) from None


def _problem(
    refused: PySparkException, place: Place, columns: list[str], views: list[str], before: int
) -> Problem:
    condition = refused.getCondition() or ""
    values = refused.getMessageParameters() or {}
    where = _line(str(refused), before)
    if condition.startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_MAP_KEY")):
        name = _plain(values.get("objectName", "?"))
        proposed = columns or _names(values.get("proposal", ""))
        return Problem(f"there is no column {name!r} here{where}", nearest(name, proposed), place)
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        name = _plain(values.get("relationName", "?"))
        return Problem(f"there is no view {name!r} here{where}", nearest(name, views), place)
    if condition == "UNRESOLVED_ROUTINE":
        name = _plain(values.get("routineName", "?"))
        return Problem(f"there is no function {name!r}{where}", "See Spark's SQL functions.", place)
    if condition == "PARSE_SYNTAX_ERROR":
        near = values.get("error", "?")
        return Problem(f"the SQL cannot be understood near {near}{where}", "", place)
    return Problem(f"Spark refuses this: {shortened(str(refused))}{where}", "", place)


def told_by(failed: Exception) -> str:
    """What went wrong, in one line: also what Java's own libraries said."""
    if isinstance(failed, Py4JJavaError):
        cause = failed.java_exception
        return shortened(cause.getMessage() or cause.toString())
    return shortened(str(failed))


def nearest(name: str, known: Iterable[str]) -> str:
    """Advice for a name that nobody knows."""
    names = list(known)
    last = name.rpartition(".")[2]
    by_lower = {each.lower(): each for each in names}
    close = get_close_matches(last.lower(), by_lower, NEAREST_MAX)
    if close:
        return f"Did you mean {' or '.join(by_lower[each] for each in close)}?"
    return f"There are: {', '.join(names)}." if names else ""


def shortened(message: str) -> str:
    """The first sentence of what Spark says, without its codes and plans."""
    text = re.sub(r"^\s*(\[[A-Z0-9_.]+\])?\s*", "", message)
    text = re.split(r"\s*SQLSTATE:|;\s*line \d+ pos|\n|;$", text, maxsplit=1)[0].strip()
    first = re.split(r"(?<=[a-z)\"'`\]])\.\s+(?=[A-Z])", text, maxsplit=1)[0]
    return first.rstrip(".;")


def _line(message: str, before: int) -> str:
    """Where in a statement of several lines; nothing for a statement of one."""
    found = re.search(r"\bline (\d+),? pos", message)
    line = int(found[1]) - before if found else 1
    return f" (line {line} of the statement)" if line > 1 else ""


def _plain(quoted: str) -> str:
    return quoted.replace("`", "").strip()


def _names(proposal: str) -> list[str]:
    return [_plain(each) for each in proposal.split(",") if each.strip()]

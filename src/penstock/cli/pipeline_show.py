"""How the status of pipelines is shown: a live view on a terminal, lines elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any, Protocol

from penstock.cli.failure import coloured, say
from penstock.cli.output import Shape, Table, rich_table
from penstock.pipeline.running.status import ENDED, RUNNING, PipelineStatus, QueryStatus

LINE_SECONDS = 10.0
"""Where nobody is looking, a line now and then is enough."""


class Show(Protocol):
    """Something that shows statuses as they come."""

    def __call__(self, statuses: Sequence[PipelineStatus]) -> None: ...

    def close(self) -> None: ...


def show_for(shape: Shape, *, bounded: bool) -> Show:
    """The show for this terminal, pipe or program; `bounded` work has an end to count up to."""
    if shape is not Shape.TABLE:
        return JsonLines()
    if sys.stderr.isatty():
        return Bars() if bounded else LiveTable()
    return Lines()


class JsonLines:
    """Each status as a line of JSON on standard output."""

    def __call__(self, statuses: Sequence[PipelineStatus]) -> None:
        for status in statuses:
            print(json.dumps(status.document()), flush=True)

    def close(self) -> None:
        """Nothing is left to show."""


class Lines:
    """A line for each change of state, and one now and then, on stderr."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[str, str]] = {}
        self._due = time.monotonic() + LINE_SECONDS

    def __call__(self, statuses: Sequence[PipelineStatus]) -> None:
        now = time.monotonic()
        for status in statuses:
            state = (status.state, status.message)
            if self._states.get(status.pipeline) != state:
                self._states[status.pipeline] = state
                say(sentence(status))
            elif now >= self._due and status.state not in ENDED:
                say(sentence(status))
        if now >= self._due:
            self._due = now + LINE_SECONDS

    def close(self) -> None:
        """Nothing is left to show."""


class LiveTable:
    """A table that is drawn again as it changes."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(
            console=Console(stderr=True, no_color=not coloured(sys.stderr), highlight=False),
            auto_refresh=False,
            # What a console sink prints goes above the table, if both are on this terminal.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=False,
        )
        self._live.start()

    def __call__(self, statuses: Sequence[PipelineStatus]) -> None:
        self._live.update(rich_table(status_table(statuses)), refresh=True)

    def close(self) -> None:
        """Leave the last table where it is."""
        self._live.stop()


class Bars:
    """A bar for each pipeline of which the end is known: records done of those there."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True, no_color=not coloured(sys.stderr), highlight=False),
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=False,
        )
        self._tasks: dict[str, Any] = {}
        self._bars.start()

    def __call__(self, statuses: Sequence[PipelineStatus]) -> None:
        for status in statuses:
            if status.pipeline not in self._tasks:
                self._tasks[status.pipeline] = self._bars.add_task("", total=None, speed="")
            known = status.lag is not None or status.state in ENDED
            self._bars.update(
                self._tasks[status.pipeline],
                description=f"{status.pipeline} {status.state}",
                completed=status.rows,
                total=status.rows + (status.lag or 0) if known else None,
                speed=_speed(status),
            )

    def close(self) -> None:
        """Leave the bars where they are."""
        self._bars.stop()


def status_table(statuses: Sequence[PipelineStatus]) -> Table:
    """One row per pipeline."""
    headings = (
        "pipeline", "state", "rows", "rows/s", "MB/s", "lag", "batch s", "state rows", "bad",
        "message",
    )  # fmt: skip
    rows = [
        (
            each.pipeline,
            each.state,
            each.rows,
            None if each.state in ENDED else f"{each.rows_per_second:,.0f}",
            None if each.state in ENDED else _megabytes(each.bytes_per_second),
            each.lag,
            f"{each.batch_seconds:.1f}",
            each.state_rows or None,
            each.bad,
            each.message,
        )
        for each in statuses
    ]
    if not any(each.message for each in statuses):
        return Table(headings[:-1], [row[:-1] for row in rows])
    return Table(headings, rows)


def query_table(status: PipelineStatus) -> Table:
    """One row per query of a pipeline."""
    headings = (
        "view", "batch", "rows", "rows/s", "lag", "batch s", "state rows", "state MB", "bad",
    )  # fmt: skip
    rows = [_query_row(each) for each in status.queries.values()]
    return Table(headings, rows, "queries")


def _query_row(query: QueryStatus) -> Sequence[object]:
    return (
        query.name,
        query.batch if query.batch >= 0 else None,
        query.rows,
        f"{query.rows_per_second:,.0f}",
        query.lag,
        f"{query.batch_seconds:.1f}",
        query.state_rows or None,
        f"{query.state_bytes / 1e6:.1f}" if query.state_bytes else None,
        query.bad,
    )


def sentence(status: PipelineStatus) -> str:
    """A status in one line."""
    parts = [f"{status.pipeline}: {status.state}"]
    if status.message:
        parts.append(status.message)
    elif status.state == RUNNING and all(each.batch < 0 for each in status.queries.values()):
        parts.append("no batch yet")
    if status.rows or status.lag is not None:
        parts.append(f"{status.rows:,} rows")
        if status.state not in ENDED:
            parts.append(_speed(status))
        if status.lag is not None:
            parts.append(f"lag {status.lag:,}")
    if status.bad:
        parts.append(f"{status.bad:,} bad")
    return ", ".join(parts)


def _speed(status: PipelineStatus) -> str:
    speed = f"{status.rows_per_second:,.0f} rows/s"
    size = status.bytes_per_second
    return speed if size is None else f"{speed}, {_megabytes(size)} MB/s"


def _megabytes(size: float | None) -> str | None:
    return None if size is None else f"{size / 1e6:,.1f}"

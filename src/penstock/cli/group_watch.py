"""The lag of a group as it changes: a live table on a terminal, a stream of answers elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.cli import groups
from penstock.cli.failure import UNREACHABLE, Failure, complain
from penstock.cli.group_lag import Document, Gauge, document, tables
from penstock.cli.output import Shape, answer, console, rich_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.cli.wire_cluster import Cluster

REFRESH_SECONDS = 1.0
ROWS_MIN = 3
LINES_BESIDE = 10
"""Lines of a live view that are not partitions: headings, the totals, room for the prompt."""


class Watch:
    """Measures a group again and again, over as many connections as it takes."""

    def __init__(self, connect: Callable[[], Cluster], group: str) -> None:
        self._connect = connect
        self._group = group
        self._cluster: Cluster | None = None
        self._gauge: Gauge | None = None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._hang_up()

    def measure(self) -> Document:
        """How far behind the group is now; after a `Failure` the next call connects anew."""
        try:
            if self._cluster is None or self._gauge is None:
                self._cluster = self._connect()
                self._gauge = Gauge(self._cluster)
            described = groups.describe(self._cluster, self._group)
            return document(described, self._gauge.measure(described))
        except Failure:
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = self._gauge = None

    def show(self, shape: Shape) -> None:
        """Show measurements until Ctrl-C, which is how this is meant to end.

        What fails at first is a mistake of somebody's; a broker that goes away later may return.
        """
        try:
            lagging = self.measure()
            if shape is Shape.TABLE and sys.stdout.isatty():
                self._draw_live(lagging)
            else:
                self._print_all(lagging, shape)
        except KeyboardInterrupt:
            pass

    def _print_all(self, lagging: Document | None, shape: Shape) -> None:
        while True:
            if lagging is not None:
                _print(lagging, shape)
            lagging = self._next(complain)

    def _draw_live(self, lagging: Document | None) -> None:
        from rich.console import Group
        from rich.live import Live
        from rich.text import Text

        screen = console()
        trouble = ""

        def tell(problem: str) -> None:
            nonlocal trouble
            trouble = problem

        with Live(console=screen, auto_refresh=False) as live:
            drawn: list[RenderableType] = []
            while True:
                if lagging is not None:
                    trouble = ""
                    shown = furthest(lagging, screen.height - LINES_BESIDE)
                    drawn = [rich_table(table) for table in tables(shown)]
                notes = [Text(f"{trouble}; trying again")] if trouble else []
                live.update(Group(*drawn, *notes), refresh=True)
                lagging = self._next(tell)

    def _next(self, tell: Callable[[str], None]) -> Document | None:
        """The next measurement, in a second; None if nobody answers, which is told."""
        time.sleep(REFRESH_SECONDS)
        try:
            return self.measure()
        except Failure as failure:
            if failure.status != UNREACHABLE:
                raise
            tell(failure.problem)
            return None


def furthest(lagging: Document, rows_max: int) -> Document:
    """The same with no more partitions than a screen has room for: those furthest behind."""
    partitions = lagging["partitions"]
    room = max(ROWS_MIN, rows_max)
    if len(partitions) <= room:
        return lagging
    worst = sorted(partitions, key=lambda one: -(one["lag"] or 0))[:room]
    return {**lagging, "partitions": worst}


def _print(lagging: Document, shape: Shape) -> None:
    if shape is Shape.JSON:
        print(json.dumps(lagging, ensure_ascii=False))  # a line each, for jq and the like
    else:
        if shape is Shape.YAML:
            print("---")
        answer(lagging, tables(lagging), shape)
        if shape is Shape.TABLE:
            print()
    sys.stdout.flush()

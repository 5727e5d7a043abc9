"""The lag of a group as it changes: a live table on a terminal, a stream of answers elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from penstock.cli.group_lag import tables
from penstock.cli.output import Shape, answer, console, rich_table

REFRESH_SECONDS = 1.0


def watch_lag(measure: Callable[[], dict[str, Any]], shape: Shape) -> None:
    """Show measurements until Ctrl-C, which is how this is meant to end."""
    try:
        if shape is Shape.TABLE and sys.stdout.isatty():
            _watch_live(measure)
        else:
            _watch_stream(measure, shape)
    except KeyboardInterrupt:
        pass


def _watch_live(measure: Callable[[], dict[str, Any]]) -> None:
    from rich.console import Group
    from rich.live import Live

    with Live(console=console(), auto_refresh=False, screen=False) as live:
        while True:
            began = time.monotonic()
            shown = Group(*(rich_table(table) for table in tables(measure())))
            live.update(shown, refresh=True)
            _rest(began)


def _watch_stream(measure: Callable[[], dict[str, Any]], shape: Shape) -> None:
    while True:
        began = time.monotonic()
        lagging = measure()
        if shape is Shape.JSON:
            print(json.dumps(lagging, ensure_ascii=False))  # a line each, for jq and the like
        else:
            if shape is Shape.YAML:
                print("---")
            answer(lagging, tables(lagging), shape)
            if shape is Shape.TABLE:
                print()
        sys.stdout.flush()
        _rest(began)


def _rest(began: float) -> None:
    time.sleep(max(0.0, began + REFRESH_SECONDS - time.monotonic()))

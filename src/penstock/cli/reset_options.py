"""Where the offsets of a group can be reset to: the same words for every kind of group."""

from __future__ import annotations

from typing import Annotated

import typer

ToEarliest = Annotated[
    bool, typer.Option("--to-earliest", help="To the first record that is there.")
]
ToLatest = Annotated[
    bool, typer.Option("--to-latest", help="To the end: only what comes from now on.")
]
ToOffset = Annotated[
    int | None, typer.Option("--to-offset", min=0, metavar="N", help="To this offset.")
]
ShiftBy = Annotated[
    int | None, typer.Option("--shift-by", metavar="N", help="N on, or back if it is negative.")
]
ToTime = Annotated[
    str | None,
    typer.Option(
        "--to-time", metavar="TIME", help="To the first record since, such as 2026-11-15T09:30."
    ),
]
ByDuration = Annotated[
    str | None,
    typer.Option("--by-duration", metavar="SPAN", help="To that long ago, such as 2h or PT1H30M."),
]

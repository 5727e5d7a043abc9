"""`penstock consume`: records become lines on standard output."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from penstock.cli.failure import USAGE, Failure
from penstock.cli.lines import Form
from penstock.cli.options import (
    BOOTSTRAP_DEFAULT,
    WAIT_DEFAULT,
    Bootstrap,
    Separator,
    Settings,
    Wait,
    new_app,
    separator_of,
)
from penstock.cli.positions import position_of

consume = new_app()


@consume.command("consume")
def run(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where the records are.")],
    start: Annotated[
        str, typer.Option("--from", metavar="POSITION", help="Where to begin in each partition.")
    ] = "start",
    end: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="POSITION",
            show_default="the end as it is now",
            help="Where to stop, before that record.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-F", help="Do not stop at the end: wait for more.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=0, metavar="N", help="Stop after N records.")
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition",
            "-p",
            min=0,
            metavar="N",
            show_default="all",
            help="Only this partition; repeatable.",
        ),
    ] = None,
    form: Annotated[Form, typer.Option("--format", "-f", help="What a line shows.")] = Form.TEXT,
    separator: Separator = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Read records, to standard output.

    Each record becomes a line with its value, after its key if there is a --separator. With
    --format json a line is an object with partition, offset, timestamp, key, value and headers;
    what is not text goes into key_base64 and value_base64.

    A POSITION is start, end, an offset, -N for the last N, a time such as 2026-11-15T09:30, a
    duration such as 90s, 15m, 2h or 1d for that long ago, or @MILLISECONDS since 1970. Records
    keep their order within a partition. Nothing is committed, and no group is joined.
    """
    if follow and end is not None:
        raise Failure("--follow never stops, and --to says where", "choose one of them", USAGE)
    now_ms = round(time.time() * 1000)
    first = position_of(start, now_ms, "--from")
    stop = None if end is None else position_of(end, now_ms, "--to")
    from penstock.cli.reading import Reader

    with Reader(bootstrap, settings, wait) as reader:
        reader.seek(topic, partition, first, stop, follow=follow)
        reader.write(form, separator_of(separator), count)

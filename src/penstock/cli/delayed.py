"""`penstock delayed`: list and cancel records that wait for their time."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from penstock.cli.failure import USAGE, Failure, say
from penstock.cli.options import (
    BOOTSTRAP_DEFAULT,
    WAIT_DEFAULT,
    Bootstrap,
    DryRun,
    Output,
    Settings,
    Wait,
    Yes,
    new_app,
)
from penstock.cli.output import Shape, answer
from penstock.cli.places import Wanted

delayed = new_app("List and cancel records that are to be delivered later.")

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, metavar="P", help="Only this one; repeatable."),
]
Before = Annotated[
    str | None,
    typer.Option(
        "--before",
        metavar="TIME",
        help="Only what is due before, such as 2026-11-15T09:30, or 2h from now.",
    ),
]
ALL = 1 << 62


@delayed.command("list")
def list_delayed(
    topic: Topic,
    partition: Partitions = None,
    before: Before = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, metavar="N", help="At most so many.")
    ] = 100,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """List records that wait for their time, the next ones first.

    OFFSET is what the producer of the record was told, and what `cancel` wants; when the record is
    delivered, it gets another. Records of open transactions are not listed.
    """
    from penstock.cli import delayed_records
    from penstock.cli.wire_cluster import Cluster

    now_ms = round(time.time() * 1000)
    window = delayed_records.Window()
    if before is not None:
        window = window._replace(end=delayed_records.time_of(before, now_ms, "--before"))
    with Cluster(bootstrap, settings, wait) as cluster:
        places = cluster.places([Wanted(topic, partition)])
        delayed_records.refuse_others(cluster, topic)
        found = delayed_records.find(cluster, places, window, limit)
        total = delayed_records.count(cluster, places)
    documents = [delayed_records.document(one) for one in found]
    answer(documents, [delayed_records.table(found)], output)
    say(f"{len(found)} of {total} delayed record{'s' * (total != 1)}")


@delayed.command(changes=True)
def cancel(
    topic: Topic,
    partition: Partitions = None,
    offset: Annotated[
        list[int] | None,
        typer.Option(
            "--offset",
            min=0,
            metavar="O",
            help="The offset that its producer was told; repeatable.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All that wait.")] = False,
    before: Before = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Let delayed records never be delivered: some by offset, or all, or all up to a time."""
    from penstock.cli import delayed_records
    from penstock.cli.confirm import ask
    from penstock.cli.wire_cluster import Cluster

    _check_scope(partition, offset, every, before)
    now_ms = round(time.time() * 1000)
    window = delayed_records.Window()
    if before is not None:
        window = window._replace(end=delayed_records.time_of(before, now_ms, "--before"))
    with Cluster(bootstrap, settings, wait) as cluster:
        places = cluster.places([Wanted(topic, partition)])
        delayed_records.refuse_others(cluster, topic)
        if offset and not dry_run:
            unknown = delayed_records.UNKNOWN_TIME
            found = [delayed_records.Delayed(unknown, places[0], each) for each in offset]
        else:
            found = delayed_records.find(cluster, places, window, ALL)
        if offset:
            found = [one for one in found if one.offset in offset]
        if found and every and not dry_run and not yes:
            ask(f"Cancel {len(found)} delayed records of {topic}?", "cancelling")
        cancelled = found if dry_run else delayed_records.cancel(cluster, found, wait)
    documents = [delayed_records.document(one) for one in cancelled]
    answer(documents, [delayed_records.table(cancelled)], output)
    would = "would be cancelled" if dry_run else "cancelled"
    say(f"{len(cancelled)} delayed record{'s' * (len(cancelled) != 1)} {would}")
    missing = sorted(set(offset or ()) - {one.offset for one in cancelled})
    if missing:
        listed = ", ".join(map(str, missing[:10]))
        raise Failure(
            f"not waiting: {listed}",
            "delivered, cancelled before, or of a transaction that is open",
        )


def _check_scope(
    partition: list[int] | None, offset: list[int] | None, every: bool, before: str | None
) -> None:
    if bool(offset) == every:
        raise Failure("which records?", "pass --offset with --partition, or --all", USAGE)
    if offset and (partition is None or len(partition) != 1):
        raise Failure("--offset is of one partition", "say which with --partition", USAGE)
    if offset and before is not None:
        raise Failure("--before does not go with --offset", "it goes with --all", USAGE)

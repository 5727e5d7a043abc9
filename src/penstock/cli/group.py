"""`penstock group`: list, describe, measure, reset and delete groups."""

from __future__ import annotations

import fnmatch
import time
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.confirm import confirm
from penstock.cli.failure import Failures, say
from penstock.cli.options import (
    BOOTSTRAP_DEFAULT,
    WAIT_DEFAULT,
    Bootstrap,
    DryRun,
    Output,
    Settings,
    Wait,
    new_app,
)
from penstock.cli.output import Shape, Table, answer
from penstock.cli.places import wanted_of
from penstock.cli.reset_options import (
    ByDuration,
    ShiftBy,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
)

group = new_app("List, describe, measure, reset and delete groups.")

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group.")]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:P,...]",
        help="A topic, or some of its partitions; repeatable.",
    ),
]


class State(StrEnum):
    """The states of groups, of whichever type."""

    PREPARING_REBALANCE = "preparing-rebalance"
    COMPLETING_REBALANCE = "completing-rebalance"
    ASSIGNING = "assigning"
    RECONCILING = "reconciling"
    STABLE = "stable"
    NOT_READY = "not-ready"
    EMPTY = "empty"
    DEAD = "dead"


class Type(StrEnum):
    """The types of groups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


@group.command("list")
def list_groups(
    pattern: Annotated[
        str | None, typer.Argument(metavar="PATTERN", help="Only names like this, such as 'app.*'.")
    ] = None,
    state: Annotated[
        list[State] | None,
        typer.Option(
            "--state",
            "-s",
            metavar="STATE",
            help="Only this state, such as stable or empty; repeatable.",
        ),
    ] = None,
    kind: Annotated[
        list[Type] | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Only classic, consumer, share or streams groups; repeatable.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Names alone, one a line.")] = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """List groups, with their type, state and number of members."""
    from penstock.cli import groups
    from penstock.cli.wire_cluster import Cluster

    with Cluster(bootstrap, settings, wait) as cluster:
        listed = [
            one
            for one in groups.listing(
                cluster, [one.value for one in state or ()], [one.value for one in kind or ()]
            )
            if pattern is None or fnmatch.fnmatchcase(one["group"], pattern)
        ]
    if quiet:
        for one in listed:
            print(one["group"])
        return
    columns = ("group", "type", "state", "members", "coordinator")
    rows = [[one[column] for column in columns] for one in listed]
    answer(listed, [Table(columns, rows)], output)


@group.command()
def describe(
    name: Name,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Describe a group: its state, its members and what they read, its offsets."""
    from penstock.cli import group_lag, groups
    from penstock.cli.wire_cluster import Cluster

    with Cluster(bootstrap, settings, wait) as cluster:
        described = groups.describe(cluster, name)
        measured = group_lag.Gauge(cluster).measure(described, ages=False)
    for one in measured:
        del one["seconds"]
    tables = groups.tables(described)
    if measured:
        tables.append(group_lag.rows(measured))
    answer({**described, "offsets": measured}, tables, output)


@group.command()
def lag(
    name: Name,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Measure every second, until Ctrl-C.")
    ] = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Show how far a group is behind, in records and in time.

    BEHIND is the age of the first record that the group has not read. A partition without a
    committed offset has no lag to tell. With --watch a terminal shows a live table; elsewhere
    each measurement is printed, and with -o json it is one line.
    """
    from penstock.cli.group_lag import tables
    from penstock.cli.group_watch import Watch
    from penstock.cli.wire_cluster import Cluster

    with Watch(lambda: Cluster(bootstrap, settings, wait), name) as measuring:
        if watch:
            measuring.show(output)
        else:
            lagging = measuring.measure()
            answer(lagging, tables(lagging), output)


@group.command(changes=True)
def reset(
    name: Name,
    topic: Topics = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every partition that the group has committed in.")
    ] = False,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="To where it is; to the end where it is nowhere.")
    ] = False,
    to_offset: ToOffset = None,
    shift_by: ShiftBy = None,
    to_time: ToTime = None,
    by_duration: ByDuration = None,
    dry_run: DryRun = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Move a group's offsets, and show the old and the new ones.

    An offset outside of what a partition holds becomes the nearest that it does hold. A group
    with members is refused: they would commit over it.
    """
    from penstock.cli import group_offsets, group_reset
    from penstock.cli.wire_cluster import Cluster

    group_reset.check_scope(topic, all_topics)
    wanted = [wanted_of(word) for word in topic or ()]
    target = group_reset.target_of(
        to_earliest=to_earliest,
        to_latest=to_latest,
        to_current=to_current,
        to_offset=to_offset,
        shift_by=shift_by,
        to_time=to_time,
        by_duration=by_duration,
        now_ms=round(time.time() * 1000),
    )
    with Cluster(bootstrap, settings, wait) as cluster:
        committed = group_offsets.committed(cluster, name)
        places = group_reset.scope(cluster, name, wanted, committed)
        moves = group_reset.plan(cluster, target, places, committed)
        if not dry_run:
            group_reset.refuse_if_active(cluster, name)
            group_offsets.commit(cluster, name, {move.place: move.new for move in moves})
        answer(group_reset.document(name, moves), [group_reset.table(moves)], output)
        if dry_run:
            group_reset.refuse_if_active(cluster, name)
    would = "could be set" if dry_run else "set"
    say(f"{len(moves)} offset{'s' * (len(moves) != 1)} of group {name} {would}")


@group.command(changes=True)
def delete(
    names: Annotated[list[str], typer.Argument(metavar="GROUP", help="The groups.")],
    topic: Topics = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A group that is not there is fine.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Delete groups and their offsets, or with --topic only their offsets in it."""
    from penstock.cli import group_delete
    from penstock.cli.failure import Failure
    from penstock.cli.wire_cluster import Cluster

    wanted = [wanted_of(word) for word in topic or ()]
    if not yes:
        if topic:
            confirm("offsets of " + ", ".join(names), "in " + ", ".join(topic))
        else:
            confirm(", ".join(names), "and where they stand in all topics")
    failures = Failures()
    with Cluster(bootstrap, settings, wait) as cluster:
        for name in names:
            try:
                if wanted:
                    group_delete.delete_offsets(cluster, name, wanted, failures)
                else:
                    group_delete.delete_group(cluster, name, if_exists=if_exists)
            except Failure as failure:
                failures.add(failure)
    failures.raise_any()

"""`penstock share`: list, describe and reset share groups."""

from __future__ import annotations

import fnmatch
import time
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.failure import say
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

share = new_app("List, describe and reset share groups.")

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The share group.")]


class State(StrEnum):
    """The states of a share group."""

    STABLE = "stable"
    EMPTY = "empty"
    DEAD = "dead"


@share.command("list")
def list_shares(
    pattern: Annotated[
        str | None, typer.Argument(metavar="PATTERN", help="Only names like this, such as 'app.*'.")
    ] = None,
    state: Annotated[
        list[State] | None,
        typer.Option("--state", "-s", metavar="STATE", help="Only stable or empty; repeatable."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Names alone, one a line.")] = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """List share groups, with their state and number of members."""
    from penstock.cli import groups
    from penstock.cli.wire_cluster import Cluster

    with Cluster(bootstrap, settings, wait) as cluster:
        listed = [
            one
            for one in groups.listing(cluster, [one.value for one in state or ()], ["share"])
            if pattern is None or fnmatch.fnmatchcase(one["group"], pattern)
        ]
    if quiet:
        for one in listed:
            print(one["group"])
        return
    columns = ("group", "state", "members", "coordinator")
    rows = [[one[column] for column in columns] for one in listed]
    answer(listed, [Table(columns, rows)], output)


@share.command()
def describe(
    name: Name,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Describe a share group: its state, its members, how far it is, what is set for it.

    START is the first record that is not done with. Of those from there to the END, AHEAD are done
    with already, since a share group takes records out of order; LAG counts the others, those that
    are out with a member and those that wait for their next try included.
    """
    from penstock.cli import shares
    from penstock.cli.wire_cluster import Cluster

    with Cluster(bootstrap, settings, wait) as cluster:
        described = shares.describe(cluster, name)
        described["offsets"] = shares.measure(cluster, name)
        described["settings"] = shares.settings_of(cluster, name)
    answer(described, shares.tables(described), output)


@share.command(changes=True)
def reset(
    name: Name,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,...]",
            help="A topic, or some of its partitions; repeatable.",
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every partition that the group has begun.")
    ] = False,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_current: Annotated[
        bool,
        typer.Option("--to-current", help="To its start: what is done with ahead comes again."),
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
    """Move where a share group starts, and show the old and the new offsets.

    What the group knew of single records is forgotten: from the new start on, all of them are
    delivered, as for the first time. An offset outside of what a partition holds becomes the
    nearest that it does hold. A group with members is refused.
    """
    from penstock.cli import group_reset, shares
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
        described = shares.describe(cluster, name)
        starts = shares.starts(cluster, name)
        places = shares.scope(cluster, name, wanted, starts)
        moves = group_reset.plan(cluster, target, places, starts)
        if not dry_run:
            shares.refuse_if_active(described)
            shares.alter(cluster, name, {move.place: move.new for move in moves})
        answer(group_reset.document(name, moves), [group_reset.table(moves)], output)
        if dry_run:
            shares.refuse_if_active(described)
    would = "could be set" if dry_run else "set"
    say(f"{len(moves)} offset{'s' * (len(moves) != 1)} of share group {name} {would}")

"""`penstock txn`: list and describe transactions, find those that hang, and abort them."""

from __future__ import annotations

import fnmatch
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.durations import duration_ms
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
from penstock.cli.output import Shape, answer
from penstock.cli.places import Place, wanted_of

txn = new_app("List, describe, find and abort transactions.")


class State(StrEnum):
    """The states of transactions."""

    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare-commit"
    PREPARE_ABORT = "prepare-abort"
    COMPLETE_COMMIT = "complete-commit"
    COMPLETE_ABORT = "complete-abort"
    PREPARE_EPOCH_FENCE = "prepare-epoch-fence"
    DEAD = "dead"


@txn.command("list")
def list_transactions(
    pattern: Annotated[
        str | None, typer.Argument(metavar="PATTERN", help="Only ids like this, such as 'app.*'.")
    ] = None,
    state: Annotated[
        list[State] | None,
        typer.Option(
            "--state",
            "-s",
            metavar="STATE",
            help="Only this state, such as ongoing or prepare-commit; repeatable.",
        ),
    ] = None,
    producer: Annotated[
        list[int] | None,
        typer.Option(
            "--producer", min=0, metavar="N", help="Only of this producer id; repeatable."
        ),
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option(
            "--longer-than", metavar="SPAN", help="Only what has been open longer, such as 5m."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Ids alone, one a line.")] = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """List transactional ids, with the state of their transactions."""
    longer_ms = None if longer_than is None else duration_ms(longer_than, "--longer-than")
    from penstock.cli import txns
    from penstock.cli.wire_cluster import Cluster

    with Cluster(bootstrap, settings, wait) as cluster:
        states = [one.value for one in state or ()]
        listed = [
            one
            for one in txns.listing(cluster, states, producer or (), longer_ms)
            if pattern is None or fnmatch.fnmatchcase(one["id"], pattern)
        ]
    if quiet:
        for one in listed:
            print(one["id"])
        return
    answer(listed, [txns.table(listed)], output)


@txn.command()
def describe(
    name: Annotated[str, typer.Argument(metavar="ID", help="The transactional id.")],
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Describe a transactional id: its producer, and its transaction's state and partitions."""
    from penstock.cli import txns
    from penstock.cli.wire_cluster import Cluster

    with Cluster(bootstrap, settings, wait) as cluster:
        described = txns.describe(cluster, name)
    answer(described, txns.tables(described), output)


@txn.command()
def hanging(
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,...]",
            show_default="all",
            help="Look into a topic, or some of its partitions; repeatable.",
        ),
    ] = None,
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="SPAN", help="Leave alone what was written to since."),
    ] = "15m",
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Find transactions that are open in a partition and that no coordinator will end.

    Readers of committed data wait behind them for ever. `penstock txn abort` ends them.
    """
    older_ms = duration_ms(older_than, "--older-than")
    wanted = [wanted_of(word) for word in topic or ()]
    from penstock.cli import txn_producers
    from penstock.cli.wire_cluster import Cluster

    with Cluster(bootstrap, settings, wait) as cluster:
        found = txn_producers.hanging(cluster, wanted, older_ms)
    documents = [txn_producers.document(one) for one in found]
    answer(documents, [txn_producers.table(found)], output)


@txn.command(changes=True)
def abort(
    name: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="End what this transactional id has begun."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="End it in this topic.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, metavar="N", help="In this partition.")
    ] = None,
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", min=0, metavar="N", help="The one that begins there."),
    ] = None,
    producer: Annotated[
        int | None,
        typer.Option("--producer", min=0, metavar="N", help="The one of this producer id."),
    ] = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Abort a transaction that is stuck, or that hangs in a partition.

    With --id the coordinator takes the id away from its producer, and aborts its transaction
    everywhere: the way out while the coordinator knows of it. With --topic and --partition an
    abort marker goes straight into that partition: for what `penstock txn hanging` finds, and
    only for that, as the coordinator is not asked.
    """
    from penstock.cli import txn_abort
    from penstock.cli.wire_cluster import Cluster

    txn_abort.check_choice(name, topic, partition, start_offset, producer)
    with Cluster(bootstrap, settings, wait) as cluster:
        if name is not None:
            if dry_run:
                from penstock.cli import txns

                state = txns.describe(cluster, name)["state"]
                say(f"transactional id {name}, which is {state}, could be fenced")
            else:
                number, epoch = txn_abort.fence(cluster, name)
                say(f"fenced transactional id {name}: now producer {number}, epoch {epoch}")
            return
        place = Place(str(topic), int(partition or 0))
        found = txn_abort.find(cluster, place, start_offset, producer)
        if not dry_run:
            txn_abort.mark_aborted(cluster, found)
        said = "could be aborted" if dry_run else "was aborted"
        say(f"the transaction of producer {found.producer} from {place}:{found.start} {said}")

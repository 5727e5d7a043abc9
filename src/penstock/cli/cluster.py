"""`penstock cluster`: a cluster as a whole; nodes that come and go, and who holds what."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

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
    new_app,
)
from penstock.cli.output import Shape, Table, answer

if TYPE_CHECKING:
    from penstock.cli.cluster_plan import Layout, Plan

cluster = new_app("Look at a cluster; add, drain and remove nodes.")

Node = Annotated[int, typer.Argument(metavar="ID", min=0, help="The node's node.id.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before anything moves.")]
Throttle = Annotated[
    int | None,
    typer.Option(
        "--throttle",
        metavar="BYTES",
        min=1,
        help="Bytes a second that each broker may spend on it.",
    ),
]


@cluster.command()
def describe(
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Show the cluster's id, its brokers, and the health of its partitions."""
    from penstock.cli import client, topics

    admin = client.admin(bootstrap, settings)
    future = admin.describe_cluster(request_timeout=wait)
    found = client.result(future, "the cluster cannot be described", wait)
    listed = topics.listing(admin, wait)
    controller = found.controller.id if found.controller is not None else None
    document = {
        "cluster": found.cluster_id,
        "controller": controller,
        "topics": len(listed),
        "partitions": sum(one["partitions"] for one in listed),
        "under_replicated": sum(one["under_replicated"] for one in listed),
        "offline": sum(one["offline"] for one in listed),
        "brokers": [
            {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack}
            for node in sorted(found.nodes, key=lambda node: node.id)
        ],
    }
    headings = ("cluster", "controller", "topics", "partitions", "under-replicated", "offline")
    summary = [document[heading.replace("-", "_")] for heading in headings]
    columns = ("id", "host", "port", "rack")
    brokers = [[broker[column] for column in columns] for broker in document["brokers"]]
    answer(document, [Table(headings, [summary]), Table(columns, brokers)], output)


@cluster.command()
def quorum(
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Show who votes on the cluster's metadata, who leads, and who is behind."""
    from penstock.cli import cluster_quorum
    from penstock.cli.wire_cluster import Cluster

    with Cluster(bootstrap, settings, wait) as found:
        document = cluster_quorum.described(found.anyone)
    answer(document, cluster_quorum.tables(document), output)


@cluster.command(changes=True)
def drain(
    node: Node,
    throttle: Throttle = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Move everything off a broker, so that it can be stopped for good.

    The plan is shown before anything moves. Clients notice nothing: a replica leaves when its heir
    has everything.
    """
    from penstock.cli.cluster_plan import drained

    def plan(before: Layout) -> Plan:
        if node not in before.racks:
            raise Failure(f"there is no broker {node}", _there(before))
        return drained(before, [node])

    _rearrange(plan, throttle, yes, dry_run, output, bootstrap, settings, wait)


@cluster.command(changes=True)
def rebalance(
    throttle: Throttle = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Give every broker as many replicas, and as many partitions to lead, as any other.

    The plan is shown before anything moves. Racks stay apart.
    """
    from penstock.cli.cluster_plan import evened

    _rearrange(evened, throttle, yes, dry_run, output, bootstrap, settings, wait)


@cluster.command("add-node", changes=True)
def add_node(
    node: Node,
    controller: Annotated[
        str | None,
        typer.Option(
            "--controller",
            metavar="HOST:PORT",
            help="Let it vote on metadata, too; where its controller listener is.",
        ),
    ] = None,
    listener: Annotated[
        str, typer.Option(metavar="NAME", help="The name of its controller listener.")
    ] = "CONTROLLER",
    throttle: Throttle = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Give a node that has just joined its share: replicas, partitions to lead, and a vote.

    Start the node first. The plan is shown before anything moves.
    """
    from penstock.cli import cluster_quorum
    from penstock.cli.addresses import address_of
    from penstock.cli.cluster_plan import filled
    from penstock.cli.wire_cluster import Cluster

    if controller is not None and not dry_run:
        host, port = address_of(controller)
        with Cluster(bootstrap, settings, wait) as found:
            cluster_quorum.add_voter(found, node, host, port, listener)
        say(f"node {node} votes")
    _rearrange(
        lambda before: filled(before, node),
        throttle, yes, dry_run, output, bootstrap, settings, wait,
    )  # fmt: skip


@cluster.command("remove-node", changes=True)
def remove_node(
    node: Node,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Forget a node that was drained and stopped: its registration, and its vote.

    A broker that still holds replicas is refused: drain it first.
    """
    from penstock.cli import cluster_moves, cluster_quorum
    from penstock.cli.confirm import ask
    from penstock.cli.wire_cluster import Cluster, check
    from penstock.model.errors import ErrorCode
    from penstock.protocol.generated import unregister_broker as leaving

    with Cluster(bootstrap, settings, wait) as found:
        before = cluster_moves.layout(found)
        held = sum(node in replicas for replicas in before.replicas.values())
        if held:
            raise Failure(
                f"broker {node} holds {held} replica(s)", f"penstock cluster drain {node}"
            )
        if node in before.racks:
            raise Failure(f"broker {node} is running", "stop it first")
        if dry_run:
            say(f"node {node} would be removed")
            return
        if not yes:
            ask(f"Remove node {node} from the cluster?", "removing a node")
        voted = cluster_quorum.remove_voter(found, node)
        request = leaving.UnregisterBrokerRequest(broker_id=node)
        told = found.anyone.ask(request, leaving.UnregisterBrokerResponse)
        if not voted or told.error_code != ErrorCode.BROKER_ID_NOT_REGISTERED:
            check(told.error_code, f"node {node} was not removed", told.error_message)
    say(f"node {node} is gone")


def _there(before: Layout) -> str:
    return f"the brokers are {', '.join(map(str, sorted(before.racks)))}"


def _rearrange(
    planned: Callable[[Layout], Plan],
    throttle: int | None,
    yes: bool,
    dry_run: bool,
    output: Shape,
    bootstrap: str,
    settings: list[str] | None,
    wait: float,
) -> None:
    """Show a plan, ask, and carry it out."""
    from penstock.cli import cluster_moves
    from penstock.cli.confirm import ask
    from penstock.cli.wire_cluster import Cluster

    with Cluster(bootstrap, settings, wait) as found:
        before = cluster_moves.layout(found)
        plan = planned(before)
        told = cluster_moves.shown(before, plan, cluster_moves.sizes(found))
        document = {"replicas": told.replicas, "bytes": told.bytes, "partitions": told.document}
        answer(document, [told.table] if plan else [], output)
        if not plan:
            say("nothing has to move")
            return
        if dry_run:
            say(f"{told.replicas} replica(s), {told.bytes} bytes would move")
            return
        if not yes:
            if output is not Shape.TABLE:
                raise Failure("not moving anything unasked", "pass --yes or --dry-run", USAGE)
            ask(f"Move {told.replicas} replica(s), {told.bytes} bytes?", "moving replicas")
        cluster_moves.carry_out(found, before, plan, throttle)
    say(f"{len(plan)} partition(s) lie where they should")

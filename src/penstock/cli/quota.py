"""`penstock quota`: list, set and remove quotas."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.confirm import ask
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
from penstock.cli.quota_rates import BY_OPTION

quota = new_app("List, set and remove quotas.")

User = Annotated[str | None, typer.Option("--user", "-u", metavar="NAME", help="A user.")]
Client = Annotated[str | None, typer.Option("--client", metavar="ID", help="A client id.")]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="An address.")]
DefaultUser = Annotated[
    bool, typer.Option("--default-user", help="Users of whom nothing else is said.")
]
DefaultClient = Annotated[
    bool, typer.Option("--default-client", help="Client ids of which nothing else is said.")
]
DefaultIp = Annotated[
    bool, typer.Option("--default-ip", help="Addresses of which nothing else is said.")
]


@quota.command("list")
def list_quotas(
    user: User = None,
    client: Client = None,
    ip: Ip = None,
    default_user: DefaultUser = False,
    default_client: DefaultClient = False,
    default_ip: DefaultIp = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """List quotas: all of them, or those that name somebody."""
    from penstock.cli import quotas
    from penstock.cli.wire_cluster import Cluster

    entity = quotas.entity_of(user, client, ip, default_user, default_client, default_ip)
    with Cluster(bootstrap, settings, wait) as cluster:
        found = quotas.found(cluster, entity, strict=False)
    answer(quotas.documents(found), [quotas.table(found)], output)


@quota.command("set", changes=True)
def set_quotas(
    user: User = None,
    client: Client = None,
    ip: Ip = None,
    default_user: DefaultUser = False,
    default_client: DefaultClient = False,
    default_ip: DefaultIp = False,
    produce: Annotated[
        str | None, typer.Option("--produce", metavar="RATE", help="Bytes written, as 10MB/s.")
    ] = None,
    fetch: Annotated[
        str | None, typer.Option("--fetch", metavar="RATE", help="Bytes read, as 10MB/s.")
    ] = None,
    request: Annotated[
        str | None, typer.Option("--request", metavar="PERCENT", help="A broker's time, as 50%.")
    ] = None,
    mutations: Annotated[
        str | None,
        typer.Option("--mutations", metavar="RATE", help="Partitions made or deleted, as 5/s."),
    ] = None,
    connections: Annotated[
        str | None,
        typer.Option("--connections", metavar="RATE", help="New connections of an ip, as 10/s."),
    ] = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Set how much somebody may have of each broker, in a second.

    `penstock quota set --user alice --produce 10MB/s --fetch 20MB/s`

    A user and a client id together hold that client of that user alone, and go before each by
    itself. MB are millions of bytes, MiB are 1048576; a number alone is bytes.
    """
    from penstock.cli import quotas
    from penstock.cli.quota_rates import rate_of
    from penstock.cli.wire_cluster import Cluster

    entity = quotas.entity_of(user, client, ip, default_user, default_client, default_ip)
    if not entity:
        raise Failure("whose quota?", "pass --user, --client, --ip or a default", USAGE)
    given = {
        "produce": produce,
        "fetch": fetch,
        "request": request,
        "mutations": mutations,
        "connections": connections,
    }
    changes = {
        BY_OPTION[option].name: rate_of(BY_OPTION[option], text)
        for option, text in given.items()
        if text is not None
    }
    if not changes:
        raise Failure("how much?", "pass --produce 10MB/s, --fetch or another", USAGE)
    with Cluster(bootstrap, settings, wait) as cluster:
        quotas.alter(cluster, entity, changes, dry_run=dry_run)
    say(f"quotas of {quotas.named(entity)} {'could be' if dry_run else 'were'} set")


@quota.command(changes=True)
def remove(
    user: User = None,
    client: Client = None,
    ip: Ip = None,
    default_user: DefaultUser = False,
    default_client: DefaultClient = False,
    default_ip: DefaultIp = False,
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            metavar="QUOTA,...",
            show_default="all",
            help=f"Only these: {', '.join(BY_OPTION)}.",
        ),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Remove quotas of exactly the one that is named; what is said of others then holds for it."""
    from penstock.cli import quotas
    from penstock.cli.wire_cluster import Cluster

    entity = quotas.entity_of(user, client, ip, default_user, default_client, default_ip)
    if not entity:
        raise Failure("whose quota?", "pass --user, --client, --ip or a default", USAGE)
    wanted = _wanted(only)
    with Cluster(bootstrap, settings, wait) as cluster:
        held = quotas.found(cluster, entity, strict=True).get(entity, {})
        going = [key for key in held if wanted is None or key in wanted]
        if not going:
            raise Failure(f"{quotas.named(entity)} has no such quota", "`penstock quota list`")
        names = ", ".join(going)
        if not (yes or dry_run):
            ask(f"Remove {names} of {quotas.named(entity)}?", "removing quotas")
        quotas.alter(cluster, entity, dict.fromkeys(going), dry_run=dry_run)
    say(f"{names} of {quotas.named(entity)} {'could be' if dry_run else 'were'} removed")


def _wanted(only: str | None) -> set[str] | None:
    if only is None:
        return None
    words = [word.strip() for word in only.split(",") if word.strip()]
    unknown = [word for word in words if word not in BY_OPTION]
    if unknown or not words:
        raise Failure(f"--only {only!r} names no quota", f"choose of {', '.join(BY_OPTION)}", USAGE)
    return {BY_OPTION[word].name for word in words}

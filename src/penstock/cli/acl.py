"""`penstock acl`: list, add and remove rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from penstock.cli.acl_grammar import Entry, Resource

acl = new_app("List, add and remove rights.")

Users = Annotated[
    list[str] | None,
    typer.Option("--user", "-u", metavar="NAME", help="Whose right; '*' is everybody; repeatable."),
]
Principals = Annotated[
    list[str] | None,
    typer.Option("--principal", metavar="KIND:NAME", help="Whose right, written out; repeatable."),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="ADDRESS", help="From where; repeatable."),
]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="OPERATION,...", help="What they may do; all is everything."),
]
Deny = Annotated[
    list[str] | None,
    typer.Option("--deny", metavar="OPERATION,...", help="What they may not, whoever allows it."),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="NAME", help="A topic; '*' is every one; repeatable."),
]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", metavar="NAME", help="A group; '*' is every one; repeatable."),
]
Transactions = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", metavar="ID", help="A transactional id; repeatable."),
]
Tokens = Annotated[
    list[str] | None, typer.Option("--token", metavar="ID", help="A delegation token; repeatable.")
]
AsUsers = Annotated[
    list[str] | None,
    typer.Option(
        "--as-user", metavar="KIND:NAME", help="Somebody whose tokens are meant; repeatable."
    ),
]
OfCluster = Annotated[bool, typer.Option("--cluster", help="The cluster as a whole.")]
Prefixed = Annotated[
    bool, typer.Option("--prefixed", help="Names are beginnings: 'orders-' or 'orders-*'.")
]


@acl.command("list")
def list_entries(
    user: Users = None,
    principal: Principals = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: Transactions = None,
    token: Tokens = None,
    as_user: AsUsers = None,
    cluster: OfCluster = False,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Only entries of these very names, not all that apply."),
    ] = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """List rights: all, those of somebody, or all that apply to something.

    `penstock acl list --topic orders-eu` also shows what is said of every topic, and of those
    whose names begin with `orders`.
    """
    from penstock.cli import acl_grammar, acls
    from penstock.cli.wire_cluster import Cluster
    from penstock.model.resources import PatternType

    filters = acl_grammar.filters_of(
        acl_grammar.principals_of(user, principal),
        None,
        (),
        (),
        _resources(topic, group, transactional_id, token, as_user, cluster, False),
        PatternType.LITERAL if exact else PatternType.MATCH,
    )
    with Cluster(bootstrap, settings, wait) as found:
        entries = acls.found(found, filters)
    answer(acls.documents(entries), [acls.table(entries)], output)


@acl.command(changes=True)
def add(
    user: Users = None,
    principal: Principals = None,
    host: Hosts = None,
    allow: Allow = None,
    deny: Deny = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: Transactions = None,
    token: Tokens = None,
    as_user: AsUsers = None,
    cluster: OfCluster = False,
    prefixed: Prefixed = False,
    producer: Annotated[
        bool, typer.Option("--producer", help="All that writing to the topics needs.")
    ] = False,
    consumer: Annotated[
        bool, typer.Option("--consumer", help="All that reading the topics in the groups needs.")
    ] = False,
    dry_run: DryRun = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Add rights, and show them.

    `penstock acl add --user alice --allow read,describe --topic 'orders-*' --prefixed`

    A --deny beats every --allow. --producer and --consumer stand for what such clients need, as
    with Kafka's tool; --prefixed holds for all names that are given.
    """
    from penstock.cli import acl_grammar, acls
    from penstock.cli.wire_cluster import Cluster

    who = acl_grammar.principals_of(user, principal)
    if not who:
        raise Failure("whose right?", "pass --user NAME or --principal KIND:NAME", USAGE)
    resources = _resources(topic, group, transactional_id, token, as_user, cluster, prefixed)
    if not resources:
        raise Failure("a right to what?", "pass --topic, --group, --cluster or another", USAGE)
    allowed = acl_grammar.operations_of(allow, "--allow")
    denied = acl_grammar.operations_of(deny, "--deny")
    entries: list[Entry] = acl_grammar.entries_of(who, host, allowed, denied, resources)
    if producer:
        entries += acl_grammar.producer_entries(who, host, resources)
    if consumer:
        entries += acl_grammar.consumer_entries(who, host, resources)
    entries = list(dict.fromkeys(entries))
    if not entries:
        raise Failure("what may they do?", "pass --allow, --deny, --producer or --consumer", USAGE)
    with Cluster(bootstrap, settings, wait) as found:
        there = set(acls.found(found, acl_grammar.filters_of(who, None, (), (), resources)))
        new = [each for each in entries if each not in there]
        failures = None if dry_run else acls.add(found, new)
    answer(acls.documents(entries), [acls.table(entries)], output)
    if failures is not None:
        failures.raise_any()
    known = len(entries) - len(new)
    say(
        f"{len(new)} right(s) {'would be' if dry_run else 'were'} added"
        + (f", {known} were there already" if known else "")
    )


@acl.command(changes=True)
def remove(
    user: Users = None,
    principal: Principals = None,
    host: Hosts = None,
    allow: Allow = None,
    deny: Deny = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: Transactions = None,
    token: Tokens = None,
    as_user: AsUsers = None,
    cluster: OfCluster = False,
    prefixed: Prefixed = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Every right that there is; say nothing else.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Remove rights, after they were shown.

    What is left open is meant in all its forms: `--user alice` alone means every right of alice,
    `--user alice --topic orders` those that name the topic itself, and no pattern that covers it.
    """
    from penstock.cli import acl_grammar, acls
    from penstock.cli.wire_cluster import Cluster

    who = acl_grammar.principals_of(user, principal)
    allowed = acl_grammar.operations_of(allow, "--allow")
    denied = acl_grammar.operations_of(deny, "--deny")
    resources = _resources(topic, group, transactional_id, token, as_user, cluster, prefixed)
    if any((who, host, allowed, denied, resources)) is everything:
        raise Failure("which rights?", "say whose or to what, or else --all", USAGE)
    filters = acl_grammar.filters_of(who, host, allowed, denied, resources)
    with Cluster(bootstrap, settings, wait) as found:
        entries = acls.found(found, filters)
        answer(acls.documents(entries), [acls.table(entries)], output)
        if not entries or dry_run:
            say(
                f"{len(entries)} right(s) would be removed" if entries else "there is no such right"
            )
            return
        if not yes:
            if output is not Shape.TABLE:
                raise Failure("not removing anything unasked", "pass --yes or --dry-run", USAGE)
            ask(f"Remove {len(entries)} right(s)?", "removing rights")
        removed, failures = acls.remove(found, entries)
    failures.raise_any()
    say(f"{removed} right(s) were removed")


def _resources(
    topic: list[str] | None,
    group: list[str] | None,
    transactional_id: list[str] | None,
    token: list[str] | None,
    as_user: list[str] | None,
    cluster: bool,
    prefixed: bool,
) -> list[Resource]:
    from penstock.cli.acl_grammar import resources_of
    from penstock.model.resources import ResourceType

    named = (
        (ResourceType.TOPIC, topic),
        (ResourceType.GROUP, group),
        (ResourceType.TRANSACTIONAL_ID, transactional_id),
        (ResourceType.DELEGATION_TOKEN, token),
        (ResourceType.USER, as_user),
    )
    return resources_of(named, cluster, prefixed)

"""`penstock topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import fnmatch
from typing import Annotated

import typer

from penstock.cli.confirm import confirm
from penstock.cli.failure import USAGE, Failure, Failures, say
from penstock.cli.options import (
    BOOTSTRAP_DEFAULT,
    WAIT_DEFAULT,
    Bootstrap,
    Configs,
    DryRun,
    Output,
    Settings,
    Wait,
    new_app,
    pairs_of,
)
from penstock.cli.output import Shape, Table, answer

topic = new_app("Create, list, describe, alter and delete topics.")

Names = Annotated[list[str], typer.Argument(metavar="NAME", help="The topics.")]


@topic.command(changes=True)
def create(
    names: Names,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            max=100_000,
            metavar="N",
            show_default="as the cluster says",
            help="How many partitions.",
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            "-r",
            min=1,
            max=10_000,
            metavar="N",
            show_default="as the cluster says",
            help="How many replicas of each partition.",
        ),
    ] = None,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A topic that is there already is fine.")
    ] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Create topics."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    from penstock.cli import client

    configs = pairs_of(config, "--config")
    new = [NewTopic(name, partitions or -1, replicas or -1, config=configs) for name in names]
    admin = client.admin(bootstrap, settings)
    futures = admin.create_topics(new, validate_only=dry_run, request_timeout=wait)
    failures = Failures()
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as refusal:
            if if_not_exists and client.code_of(refusal) == KafkaError.TOPIC_ALREADY_EXISTS:
                say(f"topic {name} is there already")
            else:
                failures.add(client.failure_of(refusal, f"topic {name} was not created"))
        else:
            say(f"topic {name} could be created" if dry_run else f"created topic {name}")
    failures.raise_any()


@topic.command("list")
def list_topics(
    pattern: Annotated[
        str | None, typer.Argument(metavar="PATTERN", help="Only names like this, such as 'app.*'.")
    ] = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also the topics that the cluster keeps for itself.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Names alone, one a line.")] = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """List topics, with the number of their partitions and replicas."""
    from penstock.cli import client, topics

    listed = [
        row
        for row in topics.listing(client.admin(bootstrap, settings), wait)
        if (internal or not row["internal"])
        and (pattern is None or fnmatch.fnmatchcase(str(row["topic"]), pattern))
    ]
    if quiet:
        for row in listed:
            print(row["topic"])
        return
    columns = ("topic", "partitions", "replicas", "under_replicated", "offline")
    headings = ("topic", "partitions", "replicas", "under-replicated", "offline")
    rows = [[row[column] for column in columns] for row in listed]
    answer(listed, [Table(headings, rows)], output)


@topic.command()
def describe(
    names: Names,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Describe topics: settings that differ from the default, and every partition."""
    from penstock.cli import client, topics

    described, failures = topics.describe(client.admin(bootstrap, settings), names, wait)
    if described:
        answer(described, [table for one in described for table in topics.tables(one)], output)
    failures.raise_any()


@topic.command(changes=True)
def alter(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The topic.")],
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            max=100_000,
            metavar="N",
            help="Grow to this many partitions.",
        ),
    ] = None,
    config: Configs = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="KEY", help="A setting to give back to its default."),
    ] = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Give a topic more partitions, or other settings."""
    from penstock.cli import client
    from penstock.cli.settings import Entity, change

    changes: dict[str, str | None] = {**pairs_of(config, "--config"), **dict.fromkeys(unset or ())}
    if partitions is None and not changes:
        raise Failure(
            "nothing to alter",
            "say what with --partitions, --config KEY=VALUE or --unset KEY",
            USAGE,
        )
    admin = client.admin(bootstrap, settings)
    would = "could be" if dry_run else "was"
    if changes:
        change(admin, Entity("topic", name), changes, dry_run=dry_run, wait=wait)
        say(f"configuration of topic {name} {would} changed")
    if partitions is not None:
        from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

        futures = admin.create_partitions(
            [NewPartitions(name, partitions)], validate_only=dry_run, request_timeout=wait
        )
        client.result(futures[name], f"topic {name} did not grow to {partitions} partitions", wait)
        say(f"topic {name} {would} given {partitions} partitions")


@topic.command(changes=True)
def delete(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A topic that is not there is fine.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Delete topics and all that they hold. There is no way back."""
    from confluent_kafka import KafkaError, KafkaException

    from penstock.cli import client

    if not yes:
        confirm(", ".join(names), "and all records in them")
    admin = client.admin(bootstrap, settings)
    futures = admin.delete_topics(names, request_timeout=wait)
    failures = Failures()
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as refusal:
            if if_exists and client.code_of(refusal) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                say(f"topic {name} is not there")
            else:
                failures.add(client.failure_of(refusal, f"topic {name} was not deleted"))
        else:
            say(f"deleted topic {name}")
    failures.raise_any()

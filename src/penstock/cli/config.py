"""`penstock config`: describe, set, unset and validate configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.failure import USAGE, Failure, complain, say
from penstock.cli.options import (
    BOOTSTRAP_DEFAULT,
    WAIT_DEFAULT,
    Bootstrap,
    DryRun,
    Output,
    Settings,
    Wait,
    new_app,
    pairs_of,
)
from penstock.cli.output import Shape, Table, answer

if TYPE_CHECKING:
    from penstock.cli.settings import Entity

config = new_app("Describe, set, unset and validate configuration.")

OfTopic = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="NAME", help="Of this topic.")
]
OfBroker = Annotated[
    int | None, typer.Option("--broker", min=0, metavar="ID", help="Of this broker.")
]
OfGroup = Annotated[
    str | None, typer.Option("--group", "-g", metavar="NAME", help="Of this group.")
]


def _entity(topic: str | None, broker: int | None, group: str | None) -> Entity:
    from penstock.cli.settings import Entity

    named = [
        Entity(kind, str(name))
        for kind, name in (("topic", topic), ("broker", broker), ("group", group))
        if name not in (None, "")
    ]
    if len(named) != 1:
        raise Failure(
            "whose configuration?" if not named else "one at a time: " + ", ".join(map(str, named)),
            "say exactly one of --topic NAME, --broker ID, --group NAME",
            USAGE,
        )
    return named[0]


@config.command()
def describe(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="Only these settings.")
    ] = None,
    topic: OfTopic = None,
    broker: OfBroker = None,
    group: OfGroup = None,
    all_keys: Annotated[
        bool, typer.Option("--all", "-a", help="Also the settings that have their default.")
    ] = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Show the settings of a topic, a broker or a group, and where they come from."""
    entity = _entity(topic, broker, group)
    from penstock.cli import client
    from penstock.cli.settings import read_settings

    found = read_settings(client.admin(bootstrap, settings), entity, wait)
    if keys:
        _check_known(keys, [one["key"] for one in found], entity)
        found = [one for one in found if one["key"] in keys]
    elif not all_keys:
        found = [one for one in found if not one["default"]]
        if not found and output is Shape.TABLE:
            say(f"all settings of {entity} have their defaults; --all shows them")
            return
    rows = [
        [
            one["key"],
            "(hidden)" if one["sensitive"] else one["value"],
            one["source"],
            one["read_only"],
        ]
        for one in found
    ]
    answer(found, [Table(("key", "value", "source", "read-only"), rows)], output)


def _check_known(keys: list[str], known: list[str], entity: Entity) -> None:
    for key in keys:
        if key not in known:
            from difflib import get_close_matches

            near = get_close_matches(key, known, 1)
            raise Failure(
                f"{entity} has no setting {key!r}",
                f"did you mean {near[0]}?" if near else "--all shows the settings that there are",
            )


@config.command("set", changes=True)
def set_keys(
    pairs: Annotated[list[str], typer.Argument(metavar="KEY=VALUE", help="The new settings.")],
    topic: OfTopic = None,
    broker: OfBroker = None,
    group: OfGroup = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Set some settings, and leave the others as they are."""
    entity = _entity(topic, broker, group)
    from penstock.cli import client
    from penstock.cli.settings import change

    changes = pairs_of(pairs, "")
    admin = client.admin(bootstrap, settings)
    change(admin, entity, dict(changes), dry_run=dry_run, wait=wait)
    _tell(entity, list(changes), dry_run)


@config.command(changes=True)
def unset(
    keys: Annotated[list[str], typer.Argument(metavar="KEY", help="The settings.")],
    topic: OfTopic = None,
    broker: OfBroker = None,
    group: OfGroup = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Give settings back to their defaults."""
    entity = _entity(topic, broker, group)
    from penstock.cli import client
    from penstock.cli.settings import change

    admin = client.admin(bootstrap, settings)
    change(admin, entity, dict.fromkeys(keys), dry_run=dry_run, wait=wait)
    _tell(entity, keys, dry_run)


def _tell(entity: Entity, keys: list[str], dry_run: bool) -> None:
    say(f"{entity}: {'could change' if dry_run else 'changed'} {', '.join(keys)}")


@config.command()
def validate(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="server.properties, or the same keys as TOML.")
    ],
) -> None:
    """Check a node's configuration file, and say everything that is wrong with it.

    Keys that Penstock knows and does not use are named too; they are no mistakes.
    """
    from penstock.model.config import ConfigProblems, NodeConfig

    try:
        node = NodeConfig.load(file)
    except OSError as error:
        raise Failure(f"cannot read {file}: {error.strerror}") from None
    except ConfigProblems as problems:
        for problem in problems.problems:
            complain(f"{file}: {problem}")
        count = len(problems.problems)
        raise Failure(f"{file} has {count} problem{'' if count == 1 else 's'}") from None
    for notice in node.notices():
        say(f"note: {notice}")
    say(f"{file} is valid")

"""The commands of `penstock`, each imported when it is chosen and not before."""

# ruff: noqa: ARG002 - the signatures are those of Typer's own group
from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from penstock.cli.coercion import QuickGroup
from penstock.cli.failure import REFUSED, USAGE, Failure, complain, say

COMMANDS = {
    "up": ("penstock.cli.node", "up", "Start a node with sensible settings, for this machine."),
    "server": (
        "penstock.cli.node",
        "server",
        "Start the node that a configuration file describes.",
    ),
    "storage": (
        "penstock.cli.storage",
        "storage",
        "Make directories ready for a node, and look at whose they are.",
    ),
    "topic": ("penstock.cli.topic", "topic", "Create, list, describe, alter and delete topics."),
    "produce": ("penstock.cli.produce", "produce", "Write records, from standard input or files."),
    "consume": ("penstock.cli.consume", "consume", "Read records, to standard output."),
    "group": ("penstock.cli.group", "group", "List, describe, measure, reset and delete groups."),
    "share": ("penstock.cli.share", "share", "List, describe and reset share groups."),
    "dlq": ("penstock.cli.dlq", "dlq", "List, show, redrive and purge dead letters."),
    "delayed": (
        "penstock.cli.delayed",
        "delayed",
        "List and cancel records that are to be delivered later.",
    ),
    "txn": ("penstock.cli.txn", "txn", "List, describe, find and abort transactions."),
    "pipeline": (
        "penstock.cli.pipeline",
        "pipeline",
        "Run, watch and mend data pipelines on Spark.",
    ),
    "config": ("penstock.cli.config", "config", "Describe, set, unset and validate configuration."),
    "log": ("penstock.cli.log", "log", "Look into log directories, without a running node."),
    "cluster": (
        "penstock.cli.cluster",
        "cluster",
        "Look at a cluster; add, drain and remove nodes.",
    ),
    "user": ("penstock.cli.user", "user", "List, create and delete users; change passwords."),
    "acl": ("penstock.cli.acl", "acl", "List, add and remove rights."),
    "quota": ("penstock.cli.quota", "quota", "List, set and remove quotas."),
    "token": ("penstock.cli.token", "token", "Create, list, renew and expire delegation tokens."),
    "profile": (
        "penstock.cli.profile",
        "profile",
        "Keep clusters by name, with their address and security.",
    ),
}
"""Name: the module, the Typer application in it, and the line that help shows."""

COMPLETE_VARIABLE = "_PENSTOCK_COMPLETE"


class LazyGroup(QuickGroup):
    """A group that knows its commands by a table, and imports the one that is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            module, name, _ = COMMANDS[cmd_name]
            command = get_command(getattr(importlib.import_module(module), name))
            command.name = cmd_name
            self.commands[cmd_name] = command
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if word not in COMMANDS and not word.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(word, COMMANDS, 1)
            ctx.fail(
                f"There is no command {word!r}" + (f"; did you mean {near[0]}?" if near else "")
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])


app = typer.Typer(
    name="penstock",
    cls=LazyGroup,
    rich_markup_mode=None,  # Rich would double the time that help takes
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from penstock.version import KAFKA_RELEASE, VERSION

        print(f"penstock {VERSION} (Kafka {KAFKA_RELEASE} protocol)")
        raise typer.Exit


@app.callback(no_args_is_help=True)
def penstock(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """An event-streaming platform that speaks the Apache Kafka protocol.

    `penstock up` starts a broker on localhost:9092; any Kafka client can talk to it. The other
    commands are such clients themselves, and work with every Kafka cluster. Data goes to
    standard output, all else to standard error.
    """


def run_command(words: Sequence[str]) -> int:
    """Run one command; the exit status."""
    for word in words:
        if not word.isprintable() and any("\ud800" <= each <= "\udfff" for each in word):
            raise Failure(f"{word!r} is not text in UTF-8", "check the encoding of it", USAGE)
    group = get_command(app)
    if COMPLETE_VARIABLE in os.environ:
        group.main(list(words), prog_name="penstock", complete_var=COMPLETE_VARIABLE)
    # Not `group.main`: it has its own mind about Ctrl-C and closed pipes, and `main` has ours.
    try:
        with group.make_context("penstock", list(words)) as context:
            group.invoke(context)
    except typer.TyperException as mistake:
        _show(mistake)
        return mistake.exit_code
    except typer.Exit as ended:
        return ended.exit_code
    except typer.Abort:
        say("nothing was done")
        return REFUSED
    return 0


def _show(mistake: typer.TyperException) -> None:
    context = getattr(mistake, "ctx", None)
    message = mistake.format_message()
    if context is None:
        complain(message)
    elif message == context.get_help():
        say(message)  # no words at all after a group: Typer makes its help the message
    else:
        Failure(message.rstrip("."), f"`{context.command_path} --help` shows how it goes").show()

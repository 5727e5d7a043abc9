"""Pages made out of the commands themselves, so that they cannot drift from them.

`python -m penstock.cli.reference` in the root of the repository writes two files again:

- docs/reference/cli.md, for people;
- src/penstock/cli/generated/help_pages.py, what `--help` shows, ready to print. Importing Typer to
  say the same takes 60 to 100 ms, and asking for help should not feel like work.

A test makes both and wants no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

from penstock.cli.failure import MEANINGS
from penstock.cli.root import app

REFERENCE_PATH = "docs/reference/cli.md"
HELP_PATH = "src/penstock/cli/generated/help_pages.py"

WIDTH = 78  # what Typer uses on a terminal of 80 columns and more

_INTRODUCTION = """\
# The command line

<!-- Made by `python -m penstock.cli.reference`. Edit the commands, not this page. -->

`penstock` starts nodes and talks to clusters, Penstock's or any other that speaks Kafka's
protocol. Commands are a noun and a verb. Data goes to standard output, messages and progress to
standard error; colours and progress bars appear on a terminal only, and `NO_COLOR` turns colours
off.

Commands that talk to a cluster find it by `-b HOST:PORT`, by a file of Kafka's client properties
(`--command-config`), by a profile (`--profile`, or the one in use), else at `localhost:9092`.
The environment variables `PENSTOCK_BOOTSTRAP`, `PENSTOCK_COMMAND_CONFIG` and `PENSTOCK_PROFILE`
stand for the options. Each `-X KEY=VALUE` is one more setting, in librdkafka's words or Kafka's;
a secret may be `env:NAME` or `file:PATH`. What goes before what, and how to make profiles, is told
in [Secure a node](../how-to/secure-a-node.md). Commands that speak to brokers by themselves, those
of `group`, `share`, `delayed`, `txn`, `user`, `acl`, `quota`, `token` and most of `cluster`,
understand the settings of address and security alone.
"""

_EXAMPLES = """\
## Examples

```sh
penstock up --port 9192 --data /tmp/demo          # a broker, ready in a moment
penstock topic create orders -p 3 -c retention.ms=86400000
printf 'alice:1 apple\\nbob:2 pears\\n' | penstock produce orders -k :
penstock consume orders -k ' -> '                 # what is there now
penstock consume orders --follow --from end       # what comes from now on
penstock consume orders --from 15m -f json | jq .value
penstock consume orders -f json | penstock produce copy -f json
penstock group lag billing --watch                # how far behind, in records and in time
penstock group reset billing -t orders --by-duration 2h --dry-run
penstock share describe workers                   # members, lag, what is set for it
penstock dlq list                                 # dead letters, by topic, group and reason
penstock dlq redrive dlq.orders --reason rejected --since 2h --dry-run
penstock delayed list orders --before 1h          # what is to be delivered later
penstock txn list --state ongoing --longer-than 5m
penstock pipeline init orders.yml                 # a pipeline file to begin with
penstock pipeline run orders.yml --once           # what is there now, then end
penstock pipeline status orders --watch           # rows, speed, lag
penstock config set --topic orders retention.ms=3600000
penstock up --secure                              # TLS, users and rights
penstock profile add local --command-config penstock-data/admin.properties --use
penstock user create shop --generate
penstock acl add --user shop --producer --topic 'orders-*' --prefixed
penstock quota set --user shop --produce 10MB/s
penstock log dump penstock-data/orders-0 --deep
```
"""


def commands() -> Iterator[tuple[str, Any]]:
    """Every command and group with its path, `penstock` itself first."""
    for path, command, _ in _tree("penstock", get_command(app), None):
        yield path, command


def _tree(path: str, command: Any, parent: Any) -> Iterator[tuple[str, Any, Any]]:
    name = path.rpartition(" ")[2]
    context = typer.Context(
        command, info_name=name, parent=parent, terminal_width=WIDTH, **command.context_settings
    )
    yield path, command, context
    for below in getattr(command, "list_commands", lambda _: [])(context):
        yield from _tree(f"{path} {below}", command.get_command(context, below), context)


def help_pages() -> str:
    """The text of help_pages.py."""
    pages = {
        path.partition(" ")[2]: command.get_help(context)
        for path, command, context in _tree("penstock", get_command(app), None)
    }
    lines = [
        '"""What `--help` shows. Made by `python -m penstock.cli.reference`; do not edit."""',
        "",
        "PAGES = {",
    ]
    for path, page in pages.items():
        text = page.replace("\\", "\\\\").replace('"""', '\\"""')
        lines.append(f'    "{path}": """\\\n{text}\n""",')
    return "\n".join([*lines, "}", ""])


def reference_page() -> str:
    """The text of cli.md."""
    parts = [_INTRODUCTION, _statuses(), _EXAMPLES]
    for path, command, context in _tree("penstock", get_command(app), None):
        if path != "penstock":
            parts.append(_section(path, command, context))
    return "\n".join(parts)


def _statuses() -> str:
    rows = [f"| {status} | {meaning} |" for status, meaning in MEANINGS.items()]
    head = ["## Exit status", "", "| status | meaning |", "| --- | --- |"]
    return "\n".join([*head, *rows, ""])


def _section(path: str, command: Any, context: Any) -> str:
    level = "##" if path.count(" ") == 1 else "###"
    lines = [f"{level} {path}", "", command.help.strip(), ""]
    if hasattr(command, "list_commands"):
        return "\n".join(lines)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    lines += ["```", usage, "```", "", "| | | default |", "| --- | --- | --- |"]
    for parameter in command.params:
        lines.append(_row(parameter, context))
    return "\n".join([*lines, ""])


def _row(parameter: Any, context: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"`{parameter.metavar}`"
    else:
        value = "" if parameter.is_flag else f" {parameter.display_type_rich(context)}"
        name = ", ".join(f"`{option}{value}`" for option in parameter.opts)
    default = parameter.show_default if isinstance(parameter.show_default, str) else None
    if default is None and parameter.default not in (None, False):
        default = f"`{getattr(parameter.default, 'value', parameter.default)}`"
    cells = [name, parameter.help, default or ("required" if parameter.required else "")]
    # A bar within a cell would end it.
    return "| " + " | ".join(one.replace("|", "\\|") for one in cells) + " |"


def main() -> None:
    for path, text in ((REFERENCE_PATH, reference_page()), (HELP_PATH, help_pages())):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()

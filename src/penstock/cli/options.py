"""Options that several commands share, so that a flag means one thing everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

import typer

from penstock.cli.coercion import QuickCommand, QuickGroup
from penstock.cli.failure import USAGE, Failure
from penstock.cli.output import Shape

BOOTSTRAP_VARIABLE = "PENSTOCK_BOOTSTRAP"
BOOTSTRAP_DEFAULT = "localhost:9092"
WAIT_DEFAULT = 15.0

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar=BOOTSTRAP_VARIABLE,
        show_envvar=True,
        metavar="HOST:PORT",
        help="A broker of the cluster, or several with commas.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="KEY=VALUE", help="A librdkafka client setting; repeatable."),
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait", metavar="SECONDS", min=0.1, max=3600, help="How long to wait for an answer."
    ),
]
Output = Annotated[Shape, typer.Option("--output", "-o", help="How to print the answer.")]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="A topic setting; repeatable."),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator",
        "-k",
        metavar="TEXT",
        help="What stands between key and value; \\t is a tab.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check, and change nothing.")]


Body = TypeVar("Body", bound=Callable[..., Any])


class App(typer.Typer):
    """A Typer application whose commands convert their words by themselves."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Body], Body]:
        return super().command(name, cls=QuickCommand, **settings)


def new_app(summary: str | None = None) -> App:
    """An application set up as all of ours are; `summary` makes it a group."""
    made = App(
        help=summary,
        cls=QuickGroup,
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
        no_args_is_help=summary is not None,
    )
    if summary is not None:
        # A callback keeps a group with a single command a group.
        made.callback()(lambda: None)
    return made


def pairs_of(words: Iterable[str] | None, option: str) -> dict[str, str]:
    """`KEY=VALUE` words as a mapping; the last of equal keys wins."""
    pairs: dict[str, str] = {}
    for word in words or ():
        key, equals, value = word.partition("=")
        if not (equals and key.strip()):
            raise Failure(
                f"{option} {word!r} is not KEY=VALUE".strip(), "an empty value is KEY=", USAGE
            )
        pairs[key.strip()] = value
    return pairs


def separator_of(text: str | None) -> bytes | None:
    r"""The separator's bytes; escapes such as \t and \x1f stand for what a shell makes hard."""
    if text is None:
        return None
    try:
        meant = text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode()
    except UnicodeDecodeError:
        meant = b""
    if not meant:
        raise Failure(
            f"--separator {text!r} cannot part a key from a value",
            "write one such as : or \\t",
            USAGE,
        )
    return meant

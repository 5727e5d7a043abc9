"""Options that several commands share, so that a flag means one thing everywhere."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

import typer

from penstock.cli.coercion import QuickCommand, QuickGroup
from penstock.cli.failure import USAGE, Failure
from penstock.cli.output import Shape

BOOTSTRAP_VARIABLE = "PENSTOCK_BOOTSTRAP"
BOOTSTRAP_DEFAULT = "localhost:9092"
PROFILE_VARIABLE = "PENSTOCK_PROFILE"
COMMAND_CONFIG_VARIABLE = "PENSTOCK_COMMAND_CONFIG"
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
    typer.Option(
        "-X",
        metavar="KEY=VALUE",
        help="A client setting, as librdkafka or Kafka name it; repeatable.",
    ),
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        envvar=PROFILE_VARIABLE,
        show_envvar=True,
        metavar="NAME",
        show_default="the one in use",
        help="Address and security of a cluster, by name; see `penstock profile`.",
    ),
]
CommandConfig = Annotated[
    str | None,
    typer.Option(
        "--command-config",
        envvar=COMMAND_CONFIG_VARIABLE,
        show_envvar=True,
        metavar="FILE",
        help="Security from a file of Kafka's client properties.",
    ),
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
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check, and change nothing.")]


Body = TypeVar("Body", bound=Callable[..., Any])


class App(typer.Typer):
    """A Typer application whose commands convert their words by themselves."""

    def command(
        self, name: str | None = None, *, changes: bool = False, **settings: Any
    ) -> Callable[[Body], Body]:
        """Register a command. One that `changes` a cluster refuses under a readonly profile."""
        register = super().command(name, cls=QuickCommand, **settings)

        def registered(body: Body) -> Body:
            register(_for_clusters(body, changes))
            return body

        return registered


def _for_clusters(body: Body, changes: bool) -> Callable[..., Any]:
    """A command as it is; where it talks to a cluster, with --profile and --command-config.

    They are the same for all such commands, and settled before a command runs: what it is given as
    `bootstrap` and `settings` is where to go in the end, and how to come in.
    """
    signature = inspect.signature(body, eval_str=True)
    if "settings" not in signature.parameters:
        return body

    @functools.wraps(body)
    def wrapped(context: typer.Context, **given: Any) -> Any:
        from penstock.cli.secure_access import Given, access_of, refuse_changes

        def said(name: str) -> Given | None:
            source = context.get_parameter_source(name)
            value = given.pop(name)
            if value is None or source is None or source.name.startswith("DEFAULT"):
                return None
            return Given(value, source.name == "ENVIRONMENT")

        access = access_of(
            said("bootstrap"),
            said("profile"),
            said("command_config"),
            pairs_of(given["settings"], "-X"),
            BOOTSTRAP_DEFAULT,
        )
        if changes and not given.get("dry_run"):
            refuse_changes(access)
        given["settings"] = [f"{key}={value}" for key, value in access.settings.items()]
        return body(bootstrap=access.bootstrap, **given)

    parameters = list(signature.parameters.values())
    at = list(signature.parameters).index("settings") + 1
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters[at:at] = [
        inspect.Parameter(name, kind, default=None, annotation=annotation)
        for name, annotation in (("profile", ProfileName), ("command_config", CommandConfig))
    ]
    context = inspect.Parameter("context", kind, annotation=typer.Context)
    parameters.insert(0, context)
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    vars(wrapped)["changes"] = changes  # a test looks at it: no command is to be forgotten
    wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapped


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

"""`penstock profile`: clusters by name, with their address, their security and a guard."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from penstock.cli.failure import USAGE, Failure, say
from penstock.cli.options import Output, new_app, pairs_of
from penstock.cli.output import Shape, Table, answer
from penstock.cli.profile_file import (
    NAME,
    Profile,
    Profiles,
    load_profiles,
    profiles_path,
    save_profiles,
)

profile = new_app("Keep clusters by name, with their address and security.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The profile.")]


@profile.command()
def add(
    name: Name,
    bootstrap: Annotated[
        str,
        typer.Option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT",
            help="A broker of the cluster, or several with commas.",
        ),
    ] = "",
    command_config: Annotated[
        str,
        typer.Option(
            "--command-config",
            metavar="FILE",
            help="Security from a file of Kafka's client properties; read at each use.",
        ),
    ] = "",
    words: Annotated[
        list[str] | None,
        typer.Option(
            "-X",
            metavar="KEY=VALUE",
            help="A client setting; a secret may be env:NAME or file:PATH.",
        ),
    ] = None,
    readonly: Annotated[
        bool, typer.Option("--readonly", help="Commands that change something refuse.")
    ] = False,
    use: Annotated[
        bool, typer.Option("--use", help="Use it from now on where no other is named.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace one of this name.")] = False,
) -> None:
    """Add a profile.

    Without an address of its own it takes that of the file. Passwords are best left where they
    are: `-X sasl.password=env:PROD_PASSWORD` or `-X sasl.password=file:/run/secrets/prod`.
    """
    from penstock.cli.addresses import address_of
    from penstock.cli.secure_properties import check_words

    if not NAME.fullmatch(name):
        raise Failure(
            f"{name!r} cannot name a profile", "take letters, digits, and . _ - behind them", USAGE
        )
    settings = pairs_of(words, "-X")
    bootstrap = bootstrap or settings.pop("bootstrap.servers", "")
    for server in bootstrap.split(",") if bootstrap else ():
        address_of(server)
    check_words(settings, f"profile {name}")
    if command_config:
        command_config = os.path.abspath(os.path.expanduser(command_config))
        _check_file(command_config, bootstrap)
    elif not bootstrap:
        raise Failure("a profile needs an address", "pass -b HOST:PORT or --command-config", USAGE)
    profiles = load_profiles()
    if name in profiles.by_name and not force:
        raise Failure(f"there is a profile {name} already", "pass --force to replace it", USAGE)
    profiles = profiles.with_profile(Profile(name, bootstrap, readonly, command_config, settings))
    if use:
        profiles = profiles._replace(current=name)
    save_profiles(profiles)
    say(
        f"added profile {name}"
        + (", which is in use" if use else f"; use it with --profile {name}")
    )


def _check_file(path: str, bootstrap: str) -> None:
    """`Failure` now, where later every command would have it."""
    from penstock.cli.secure_access import SERVERS
    from penstock.cli.secure_properties import read_properties

    if SERVERS not in read_properties(path) and not bootstrap:
        raise Failure(f"{path} does not say where the cluster is", "pass -b HOST:PORT", USAGE)


@profile.command("list")
def list_profiles(output: Output = Shape.TABLE) -> None:
    """List profiles. The one in use counts where no other is named."""
    profiles = load_profiles()
    found = [_document(profiles, each) for _, each in sorted(profiles.by_name.items())]
    columns = ("profile", "in_use", "bootstrap", "readonly", "command_config")
    headings = ("profile", "in use", "bootstrap", "readonly", "command-config")
    rows = [[each[column] for column in columns] for each in found]
    answer(found, [Table(headings, rows)], output)


@profile.command()
def show(name: Name, output: Output = Shape.TABLE) -> None:
    """Show what a profile holds. Secrets are masked."""
    profiles = load_profiles()
    document = _document(profiles, profiles.get(name))
    rows = [(key, value) for key, value in document.items() if key != "settings"]
    rows += list(document["settings"].items())
    answer(document, [Table(("key", "value"), rows)], output)


def _document(profiles: Profiles, one: Profile) -> dict[str, Any]:
    from penstock.cli.secure_secrets import shown

    return {
        "profile": one.name,
        "in_use": profiles.current == one.name,
        "bootstrap": one.bootstrap or _address_in(one.command_config),
        "readonly": one.readonly,
        "command_config": one.command_config,
        "settings": {key: shown(key, value) for key, value in sorted(one.settings.items())},
    }


def _address_in(path: str) -> str:
    """The address that a profile's file names; nothing where the file is not there any more."""
    from penstock.cli.secure_access import SERVERS
    from penstock.cli.secure_properties import read_properties

    try:
        return read_properties(path).get(SERVERS, "")
    except Failure:
        return ""


@profile.command("use")
def use_profile(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The profile; none with --none.")
    ] = None,
    none: Annotated[
        bool, typer.Option("--none", help="Use none: -b or localhost:9092 again.")
    ] = False,
) -> None:
    """Use a profile from now on, where no other is named."""
    if (name is None) is not none:
        raise Failure("say which profile", "name one, or pass --none", USAGE)
    profiles = load_profiles()
    if name is not None:
        profiles.get(name)
    save_profiles(profiles._replace(current=name or ""))
    say("no profile is in use" if name is None else f"profile {name} is in use")


@profile.command()
def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="The profiles.")],
) -> None:
    """Remove profiles. Files that they name stay where they are."""
    profiles = load_profiles()
    for name in names:
        profiles.get(name)
    for name in names:
        profiles = profiles.without(name)
    save_profiles(profiles)
    say(f"removed {', '.join(names)} from {profiles_path()}")

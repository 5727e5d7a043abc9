"""`penstock storage`: making directories ready for a node, as kafka-storage does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.failure import REFUSED, USAGE, Failure, complain
from penstock.cli.options import new_app

if TYPE_CHECKING:
    from penstock.model.config import NodeConfig

storage = new_app("Make directories ready for a node, and look at whose they are.")

ConfigFile = Annotated[
    str,
    typer.Option("--config", "-c", metavar="FILE", help="The node's configuration file."),
]
Release = Annotated[
    str | None,
    typer.Option("--release-version", "-r", metavar="RELEASE", help="Such as 4.3 or 4.3-IV0."),
]


@storage.command("format")
def format_directories(
    cluster_id: Annotated[
        str,
        typer.Option(
            "--cluster-id", "-t", metavar="ID", help="The same for every node of the cluster."
        ),
    ],
    config: ConfigFile,
    standalone: Annotated[
        bool,
        typer.Option("--standalone", "-s", help="Begin a quorum with this node as its only voter."),
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            "-I",
            metavar="ID@HOST:PORT:DIRECTORY,...",
            help="Begin a quorum with these voters; the same words for every node.",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool,
        typer.Option(
            "--no-initial-controllers", "-N", help="Begin no quorum: the node will join one."
        ),
    ] = False,
    ignore_formatted: Annotated[
        bool,
        typer.Option("--ignore-formatted", "-g", help="Leave formatted directories as they are."),
    ] = False,
    release_version: Release = None,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="A level; repeatable."),
    ] = None,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            "-S",
            metavar="CREDENTIAL",
            help="A first user: 'SCRAM-SHA-512=[name=alice,password=...]'; repeatable.",
        ),
    ] = None,
) -> None:
    """Make the directories of a node ready for it.

    `penstock server` starts only on directories that were formatted, so that a node whose disk is
    missing, empty or another's does not vote with a blank memory. `penstock up` formats by itself.

    With controller.quorum.voters in the file the quorum is static, and nothing else is needed.
    Without it the log says who votes, and one of --standalone, --initial-controllers and
    --no-initial-controllers says how that begins on a controller.

    --add-scram adds users whom the nodes know before anybody could add them; say the same for
    every node. In place of `password` stand `salt` and `saltedpassword`, in base64; `iterations`
    are 4096 unless it says otherwise.
    """
    from penstock.cli.storage_format import Wanted, run_format

    if standalone + no_initial_controllers + (initial_controllers is not None) > 1:
        raise Failure(
            "--standalone, --initial-controllers and --no-initial-controllers exclude each other",
            "choose one of them",
            USAGE,
        )
    wanted = Wanted(
        cluster_id,
        standalone,
        initial_controllers,
        no_initial_controllers,
        ignore_formatted,
        release_version,
        tuple(feature or ()),
        tuple(add_scram or ()),
    )
    run_format(read_config(config), wanted)


@storage.command()
def info(config: ConfigFile) -> None:
    """Show whose the directories of a node are, and what is wrong with them."""
    from penstock.cli.storage_info import look_at

    found = look_at(read_config(config))
    if found.directories:
        print(f"Found log director{'y' if len(found.directories) == 1 else 'ies'}:")
        print("".join(f"  {each}\n" for each in found.directories))
    if found.meta is not None:
        pairs = ", ".join(f"{key}={value}" for key, value in sorted(found.meta.items()))
        print(f"Found metadata: {{{pairs}}}\n")
    if found.problems:
        print(f"Found problem{'' if len(found.problems) == 1 else 's'}:")
        print("".join(f"  {each}\n" for each in found.problems))
        raise typer.Exit(REFUSED)


@storage.command("random-uuid")
def random_uuid() -> None:
    """Print a random id, for a cluster or a directory."""
    from penstock.model.ids import uuid_text
    from penstock.platform.chance import SystemChance

    print(uuid_text(SystemChance().uuid()))


@storage.command("version-mapping")
def version_mapping(release_version: Release = None) -> None:
    """Show the feature levels with which a new cluster of a release begins."""
    from penstock.cli.storage_format import release_level
    from penstock.metadata.levels import METADATA_VERSION, RELEASES, levels_at

    level = max(RELEASES) if release_version is None else release_level(release_version)
    for name, each in levels_at(level).items():
        named = f" ({release_version or RELEASES[level]})" if name == METADATA_VERSION else ""
        print(f"{name}={each}{named}")


@storage.command("feature-dependencies")
def feature_dependencies(
    feature: Annotated[
        list[str],
        typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="A level; repeatable."),
    ],
) -> None:
    """Show what a feature needs at a level."""
    from penstock.cli.storage_format import levels_of
    from penstock.metadata.levels import (
        ELR_FROM,
        ELR_VERSION,
        METADATA_VERSION,
        RELEASES,
    )

    for name, level in levels_of(feature).items():
        release = f" ({RELEASES[level]})" if name == METADATA_VERSION else ""
        if name == ELR_VERSION and level:
            print(f"{name}={level} requires:")
            print(f"    {METADATA_VERSION}={ELR_FROM} ({RELEASES[ELR_FROM]})")
        else:
            print(f"{name}={level}{release} has no dependencies.")


def read_config(path: str) -> NodeConfig:
    """A node's configuration, or everything that is wrong with it."""
    from penstock.model.config import ConfigProblems, NodeConfig

    try:
        return NodeConfig.load(path)
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from None
    except ConfigProblems as problems:
        for problem in problems.problems:
            complain(f"{path}: {problem}")
        raise Failure(f"{path} cannot be used", f"`penstock config validate {path}`") from None

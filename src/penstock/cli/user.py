"""`penstock user`: list, create and delete users, and change their passwords."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.confirm import confirm
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

ITERATIONS_DEFAULT = 8_192

user = new_app("List, create and delete users; change passwords.")


class Scram(StrEnum):
    """How a user may log in."""

    SHA_256 = "scram-sha-256"
    SHA_512 = "scram-sha-512"


Name = Annotated[str, typer.Argument(metavar="NAME", help="The user.")]
PasswordFile = Annotated[
    str | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        show_default="asked for, or standard input",
        help="Where the password is; - is standard input.",
    ),
]
Generate = Annotated[
    bool, typer.Option("--generate", help="Make a password, and print it this once.")
]
Mechanisms = Annotated[
    list[Scram] | None,
    typer.Option("--mechanism", "-m", help="How the user may log in; repeatable."),
]
Iterations = Annotated[
    int,
    typer.Option(
        "--iterations", min=4_096, max=16_384, metavar="N", help="How long guessing takes."
    ),
]


@user.command("list")
def list_users(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Only these users.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Names alone, one a line.")] = False,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """List users, and how they may log in."""
    from penstock.cli import users
    from penstock.cli.wire_cluster import Cluster

    with Cluster(bootstrap, settings, wait) as cluster:
        found = users.credentials(cluster, names or None)
    if quiet:
        for name in found:
            print(name)
        return
    answer(users.documents(found), [users.table(found)], output)


@user.command(changes=True)
def create(
    name: Name,
    password_file: PasswordFile = None,
    generate: Generate = False,
    mechanism: Mechanisms = None,
    iterations: Iterations = ITERATIONS_DEFAULT,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Create a user, who logs in with SCRAM.

    The password comes from a file or standard input, is asked for on a terminal, or is made with
    --generate and printed this once. A new user has no rights: see `penstock acl add`.
    """
    from penstock.cli import users
    from penstock.cli.user_passwords import new_password
    from penstock.cli.wire_cluster import Cluster

    chosen = [one.value.upper() for one in mechanism or (Scram.SHA_512,)]
    with Cluster(bootstrap, settings, wait) as cluster:
        if name in users.credentials(cluster, [name]):
            raise Failure(f"user {name} is there already", f"penstock user password {name}")
        password = new_password(name, file=password_file, generate=generate)
        users.set_password(cluster, name, password, dict.fromkeys(chosen), iterations)
    say(f"created user {name} ({', '.join(dict.fromkeys(chosen))})")
    if generate:
        print(password)


@user.command(changes=True)
def password(
    name: Name,
    password_file: PasswordFile = None,
    generate: Generate = False,
    mechanism: Mechanisms = None,
    iterations: Iterations = ITERATIONS_DEFAULT,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Give a user another password.

    It replaces that of all mechanisms that the user has; --mechanism names others. Connections that
    are open stay open.
    """
    from penstock.cli import users
    from penstock.cli.user_passwords import new_password
    from penstock.cli.wire_cluster import Cluster

    with Cluster(bootstrap, settings, wait) as cluster:
        found = users.credentials(cluster, [name])
        if name not in found:
            raise Failure(f"there is no user {name}", f"penstock user create {name}")
        chosen = [one.value.upper() for one in mechanism or ()] or list(found[name])
        word = new_password(name, file=password_file, generate=generate)
        users.set_password(cluster, name, word, dict.fromkeys(chosen), iterations)
    say(f"changed the password of user {name} ({', '.join(dict.fromkeys(chosen))})")
    if generate:
        print(word)


@user.command(changes=True)
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="The users.")],
    yes: Yes = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A user who is not there is fine.")
    ] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Delete users: nobody logs in under these names any more.

    Their rights stay, for whoever gets the name next: see `penstock acl remove --user`.
    """
    from penstock.cli import users
    from penstock.cli.wire_cluster import Cluster

    with Cluster(bootstrap, settings, wait) as cluster:
        found = users.credentials(cluster, names)
        missing = [name for name in names if name not in found]
        if missing and not if_exists:
            raise Failure(f"there is no user {', '.join(missing)}", "`penstock user list`", USAGE)
        if dry_run or not found:
            say(f"would delete {', '.join(found)}" if found else "nobody is there to delete")
            return
        if not yes:
            confirm(f"user {', '.join(found)}", "and the credentials")
        failures = users.delete(cluster, found)
    failures.raise_any()
    say(f"deleted user {', '.join(found)}")


@user.command("hash")
def hash_password(
    password_file: PasswordFile = None,
    mechanism: Annotated[
        Scram, typer.Option("--mechanism", "-m", help="Whose way of hashing is used.")
    ] = Scram.SHA_512,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations", min=4_096, max=1_000_000, metavar="N", help="How long guessing takes."
        ),
    ] = ITERATIONS_DEFAULT,
) -> None:
    """Print what a configuration file may hold in place of a password for PLAIN.

    It goes where the password would: `user_alice="SCRAM-SHA-512$..."` in the sasl.jaas.config of a
    listener. Nobody can log in with it.
    """
    import os

    from penstock.cli.user_passwords import new_password
    from penstock.security import scram_keys
    from penstock.security.plain import written

    word = new_password("the file", file=password_file, generate=False)
    kind = scram_keys.BY_NAME[mechanism.value.upper()]
    salt = os.urandom(scram_keys.SALT_BYTES)
    stretched = scram_keys.salted(kind, word, salt, iterations)
    print(written(kind, scram_keys.credential(kind, salt, iterations, stretched)))

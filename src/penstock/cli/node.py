"""`penstock up` and `penstock server`: running a node.

`launch` reads the same command lines quicker; what arrives here is help, mistakes, and forms that
it leaves to Typer.
"""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.launch import (
    BROKERS_MAX,
    DATA_DEFAULT,
    HOST_DEFAULT,
    PORT_DEFAULT,
    Server,
    Up,
    launch,
)
from penstock.cli.options import new_app, pairs_of

up = new_app()
server = new_app()


@up.command()
def run_up(
    data: Annotated[
        str,
        typer.Option("--data", "-d", metavar="DIR", help="Where the data lives; made if missing."),
    ] = DATA_DEFAULT,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="The address to listen on, and to tell clients.")
    ] = HOST_DEFAULT,
    port: Annotated[
        int,
        typer.Option(
            "--port", "-p", metavar="PORT", min=0, max=65535, help="The port; 0 takes a free one."
        ),
    ] = PORT_DEFAULT,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="KEY=VALUE", help="A broker setting; repeatable."),
    ] = None,
    brokers: Annotated[
        int,
        typer.Option(
            "--brokers",
            "-b",
            metavar="N",
            min=1,
            max=BROKERS_MAX,
            help="So many brokers as one cluster, on this port and those behind it.",
        ),
    ] = 1,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure", help="Ask for proof: TLS, users and rights, made ready at the first start."
        ),
    ] = False,
) -> None:
    """Start a node with sensible settings, for this machine.

    It keeps its data in one directory, and finds it again there the next time. When it takes
    requests it prints `penstock is ready on HOST:PORT`. Ctrl-C or SIGTERM stops it cleanly.

    With `--brokers N` it starts N broker processes that form one cluster, for a machine with more
    cores, and starts those again that end.

    With `--secure` clients come in by TLS and SCRAM, and may do what rights allow. The first start
    makes an authority, certificates and the user `admin` in the data directory; every start prints
    the client settings to paste.
    """
    overrides = pairs_of(config, "--config")
    raise typer.Exit(launch(Up(data, host, port, overrides, brokers, secure)))


@server.command()
def run_server(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="server.properties, or the same keys as TOML.")
    ],
) -> None:
    """Start the node that a configuration file describes.

    The file holds Kafka's own keys; `penstock config validate FILE` checks it without starting
    anything. Its directories are made ready once, with `penstock storage format`. When the node
    takes requests it prints `penstock is ready on HOST:PORT`.
    """
    raise typer.Exit(launch(Server(file)))

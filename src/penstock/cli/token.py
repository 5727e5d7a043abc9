"""`penstock token`: create, list, renew and expire delegation tokens."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.durations import duration_ms
from penstock.cli.failure import say
from penstock.cli.options import (
    BOOTSTRAP_DEFAULT,
    WAIT_DEFAULT,
    Bootstrap,
    Output,
    Settings,
    Wait,
    Yes,
    new_app,
)
from penstock.cli.output import Shape, Table, answer

token = new_app("Create, list, renew and expire delegation tokens.")

Word = Annotated[str, typer.Argument(metavar="TOKEN", help="The token's id, or its HMAC.")]


@token.command(changes=True)
def create(
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="USER", show_default="you", help="Whom it stands for."),
    ] = None,
    renewer: Annotated[
        list[str] | None,
        typer.Option("--renewer", metavar="USER", help="Who may renew it, too; repeatable."),
    ] = None,
    life: Annotated[
        str | None,
        typer.Option(
            "--max-life",
            metavar="SPAN",
            show_default="as the cluster says",
            help="How long it can be renewed at most, such as 7d.",
        ),
    ] = None,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Create a token, and show its HMAC this once.

    Clients log in with it by SCRAM: the id is the user, the HMAC the password, and Java's clients
    add `tokenauth="true"` to sasl.jaas.config.
    """
    import base64

    from penstock.cli import tokens
    from penstock.cli.wire_cluster import Cluster

    life_ms = tokens.CLUSTERS_CHOICE if life is None else duration_ms(life, "--max-life")
    with Cluster(bootstrap, settings, wait) as cluster:
        made = tokens.create(cluster, owner, renewer or (), life_ms)
    document = {**tokens.document(made), "hmac": base64.b64encode(made.hmac).decode()}
    answer(document, [Table(("key", "value"), list(document.items()))], output)
    say("keep the HMAC where passwords are kept: whoever has it is the owner")


@token.command("list")
def list_tokens(
    owner: Annotated[
        list[str] | None,
        typer.Option("--owner", metavar="USER", help="Only tokens of this user; repeatable."),
    ] = None,
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """List the tokens that you may see, without what opens doors."""
    from penstock.cli import tokens
    from penstock.cli.wire_cluster import Cluster

    with Cluster(bootstrap, settings, wait) as cluster:
        found = tokens.found(cluster, owner or None)
    answer([tokens.document(each) for each in found], [tokens.table(found)], output)


@token.command(changes=True)
def renew(
    word: Word,
    period: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="SPAN",
            show_default="as the cluster says",
            help="How long from now, such as 1d.",
        ),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Let a token live on, at most until it can be renewed no more."""
    from penstock.cli import tokens
    from penstock.cli.wire_cluster import Cluster

    period_ms = tokens.CLUSTERS_CHOICE if period is None else duration_ms(period, "--for")
    with Cluster(bootstrap, settings, wait) as cluster:
        until = tokens.renew(cluster, tokens.hmac_of(cluster, word), period_ms)
    say(f"the token expires at {tokens.time_text(until)}")


@token.command(changes=True)
def expire(
    word: Word,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="SPAN", show_default="now", help="When, such as 10m."),
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """End a token, now or soon: nobody logs in with it afterwards."""
    from penstock.cli import tokens
    from penstock.cli.confirm import ask
    from penstock.cli.wire_cluster import Cluster

    period_ms = -1 if after is None else duration_ms(after, "--after")
    with Cluster(bootstrap, settings, wait) as cluster:
        hmac = tokens.hmac_of(cluster, word)
        if not yes:
            ask("End this token?", "ending a token")
        until = tokens.expire(cluster, hmac, period_ms)
    say("the token is gone" if after is None else f"the token ends at {tokens.time_text(until)}")

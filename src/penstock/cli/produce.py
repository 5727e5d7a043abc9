"""`penstock produce`: lines of standard input, or of files, become records."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.failure import USAGE, Failure
from penstock.cli.lines import Form
from penstock.cli.options import (
    BOOTSTRAP_DEFAULT,
    WAIT_DEFAULT,
    Bootstrap,
    Separator,
    Settings,
    Wait,
    new_app,
    pairs_of,
    separator_of,
)

produce = new_app()


class Compression(StrEnum):
    """How batches are compressed on their way and on the broker's disk."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """What the leader waits for before it acknowledges a record."""

    NOBODY = "0"
    LEADER = "1"
    ALL = "all"


@produce.command("produce", changes=True)
def run(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where the records go.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Files to read; standard input if there is none."),
    ] = None,
    form: Annotated[Form, typer.Option("--format", "-f", help="What a line holds.")] = Form.TEXT,
    separator: Separator = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="TEXT", help="The key of every record.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            "-p",
            min=0,
            max=2**31 - 1,
            metavar="N",
            show_default="by the key",
            help="The partition of every record.",
        ),
    ] = None,
    tombstones: Annotated[
        bool, typer.Option("--tombstones", help="An empty value is a tombstone: no value at all.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="Each file is one record, rather than each line.")
    ] = False,
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="How to compress.")
    ] = Compression.NONE,
    acks: Annotated[Acks, typer.Option("--acks", help="Who must have a record.")] = Acks.ALL,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Write records, from standard input or files.

    Each line becomes the value of a record. With --separator a line is KEY SEPARATOR VALUE. With
    --format json it is an object with any of key, value, headers, partition and timestamp, as
    `penstock consume` writes it; key_base64 and value_base64 hold what is not text.

    A line that is no record, or a record that is not delivered within --wait seconds, is told of
    on standard error, and the command ends with status 1.
    """
    if whole and (form is Form.JSON or separator is not None):
        raise Failure("--whole takes a file as it is", "leave out --separator and --format", USAGE)
    from penstock.cli.sending import Common, Sender, send_files

    common = Common(
        key=None if key is None else key.encode(),
        headers=[(name, text.encode()) for name, text in pairs_of(header, "--header").items()],
        partition=partition,
        tombstones=tombstones,
    )
    client_settings = {
        "compression.type": compression.value,
        "acks": acks.value,
        "enable.idempotence": acks is Acks.ALL,
        "message.timeout.ms": round(wait * 1000),
        "linger.ms": 5,
        "delivery.report.only.error": True,
    }
    sender = Sender(topic, common, bootstrap, settings, client_settings)
    send_files(sender, files or ["-"], form, separator_of(separator), whole=whole)

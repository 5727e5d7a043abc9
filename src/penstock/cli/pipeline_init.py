"""`penstock pipeline init`: a pipeline file to begin with."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.failure import USAGE, Failure, say


class Template(StrEnum):
    """What the pipeline does."""

    GENERATOR_TO_TOPIC = "generator-to-topic"
    TOPIC_TO_LAKE = "topic-to-lake"
    TOPIC_TO_TOPIC = "topic-to-topic"
    LOG_TO_TOPIC = "log-to-topic"
    DATABASE_TO_TOPIC = "database-to-topic"


def init(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file to write; it must not be there yet.")
    ] = "pipeline.yml",
    template: Annotated[
        Template, typer.Option("--template", "-t", help="What the pipeline is to do.")
    ] = Template.GENERATOR_TO_TOPIC,
) -> None:
    """Write a pipeline file to begin with.

    The first template runs as it is beside `penstock up`; the others say what they need.
    Beside it goes .penstock/pipeline.schema.json, by which editors complete and check its keys.
    """
    from penstock.pipeline.spec.templates import SCHEMA_FILE, template_text

    if os.path.lexists(file):
        raise Failure(f"{file} is there already", "choose another name, or remove it", USAGE)
    schema = os.path.join(os.path.dirname(file), SCHEMA_FILE)
    try:
        with open(file, "x", encoding="utf-8") as opened:
            opened.write(template_text(template, file))
        _write_schema(schema)
    except (OSError, ValueError) as mistake:
        why = getattr(mistake, "strerror", None) or str(mistake)
        where = getattr(mistake, "filename", None) or file
        raise Failure(f"cannot write {where}: {why}") from None
    say(f"{file} is written; run it with: penstock pipeline run {file}")


def _write_schema(path: str) -> None:
    """Always anew: it belongs to this version of Penstock, and nobody edits it."""
    from penstock.pipeline.spec.reference import schema_text

    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(schema_text())

"""Asking before something is gone for good."""

from __future__ import annotations

import sys

import typer

from penstock.cli.failure import USAGE, Failure


def confirm(what: str, along: str) -> None:
    """Return if whoever sits at the terminal wants `what` deleted, and what goes `along` with it.

    Where nobody sits it is a `Failure`.
    """
    ask(f"Delete {what} {along}?", f"deleting {what}")


def ask(question: str, doing: str) -> None:
    """Return if whoever sits at the terminal says yes. Where nobody sits it is a `Failure`."""
    if not sys.stdin.isatty():
        raise Failure(f"not {doing} unasked", "pass --yes where nobody can answer", USAGE)
    # Not Typer's own question, which leaves a blank on standard output.
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Abort

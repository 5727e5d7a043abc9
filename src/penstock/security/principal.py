"""Who asks: a kind and a name, as ACLs and quotas name them."""

from __future__ import annotations

from typing import NamedTuple

USER = "User"


class Principal(NamedTuple):
    """Somebody, as a listener came to know them."""

    name: str
    kind: str = USER
    by_token: bool = False
    """Whether a delegation token was shown instead of a password: no token begets another."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("ANONYMOUS")
"""Everybody on a listener that asks for no proof."""


def principal_of(text: str) -> Principal:
    """A principal as configuration and ACLs write it: KIND:NAME. ValueError if it is none."""
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"{text!r} is no principal: write it as User:name")
    return Principal(name, kind)

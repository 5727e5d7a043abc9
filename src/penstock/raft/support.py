"""Whether this release can work with what a cluster has agreed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.levels import NO_LEVELS, SUPPORTED

if TYPE_CHECKING:
    from collections.abc import Mapping


class UnsupportedLevel(ValueError):
    """The metadata was written for another release: folding it on would misread it."""


def check_supported(where: str, levels: Mapping[str, int]) -> None:
    """UnsupportedLevel if any of the levels is one that this release does not know."""
    for name, level in levels.items():
        span = SUPPORTED.get(name, NO_LEVELS)
        if not span.holds(level):
            raise UnsupportedLevel(
                f"{where} needs {name} {level}, and this release supports "
                f"{span.first} to {span.last}: start the release that wrote it"
            )

"""Where things that can be had again are kept: jars, a home for Java, classes ready to load."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`penstock` in the user's cache folder. It may be deleted at any time."""
    return _base("XDG_CACHE_HOME", ".cache")


def log_folder() -> Path:
    """Where the logs of Spark sessions go that are told no better place."""
    return _base("XDG_STATE_HOME", ".local/state") / "spark"


def _base(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / default) / "penstock"

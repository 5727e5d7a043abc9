"""What each key does, in our words."""

from __future__ import annotations


def description_of(scope: str, name: str) -> str:
    """What the key does, in a sentence or two."""
    return ""

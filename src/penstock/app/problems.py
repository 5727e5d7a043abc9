"""What keeps a node from starting."""

from __future__ import annotations


class CannotStart(Exception):
    """The node refuses to start; the message says what to do about it."""

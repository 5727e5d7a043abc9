"""What must never happen."""

from __future__ import annotations


class Violation(AssertionError):
    """The cluster broke a promise."""

"""A transaction, put together from what its producer did."""

from __future__ import annotations

from enum import Enum

from penstock.testing.history.operations import Commit, End, Outcome, Send


class Fate(Enum):
    """What must have become of a transaction, as far as its producer can know."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    EITHER = "committed or aborted"


class Transaction:
    """All operations under one label."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.sends: list[Send] = []
        self.commits: list[Commit] = []
        self.ends: list[End] = []

    @property
    def fate(self) -> Fate:
        """A transaction that nobody asked to commit, or whose commit failed, is aborted."""
        if any(end.is_ok and end.commit for end in self.ends):
            return Fate.COMMITTED
        if any(end.is_ok for end in self.ends):
            return Fate.ABORTED
        asked = any(end.commit and end.outcome is Outcome.UNKNOWN for end in self.ends)
        return Fate.EITHER if asked else Fate.ABORTED

    @property
    def commit_began(self) -> int | None:
        """When its commit was first asked for; None: never."""
        return min((end.began for end in self.ends if end.commit), default=None)

    @property
    def commit_ended(self) -> int | None:
        """When its commit was confirmed; None: it was not."""
        return min((end.ended for end in self.ends if end.commit and end.is_ok), default=None)

"""One round of asking for votes. Pure."""

from __future__ import annotations

from penstock.raft.voters import Voters


class Ballot:
    """Who said yes, who said no, and who could not be asked."""

    __slots__ = ("granted", "refused", "unasked")

    def __init__(self, own: int) -> None:
        self.granted = {own}
        self.refused: set[int] = set()
        self.unasked: set[int] = set()
        """To be asked again."""

    def take(self, voter: int, granted: bool) -> None:
        """A voter answered; its first answer counts."""
        self.unasked.discard(voter)
        if voter not in self.granted and voter not in self.refused:
            (self.granted if granted else self.refused).add(voter)

    def miss(self, voter: int) -> None:
        """A voter could not be asked, or did not answer."""
        if voter not in self.granted and voter not in self.refused:
            self.unasked.add(voter)

    def won(self, voters: Voters) -> bool:
        """Whether more than half said yes."""
        return len(self.granted & voters.by_id.keys()) >= voters.majority

    def lost(self, voters: Voters) -> bool:
        """Whether so many said no that the rest cannot make up for it."""
        return len(voters.by_id) - len(self.refused & voters.by_id.keys()) < voters.majority

"""How long members of the quorum wait for each other."""

from __future__ import annotations

from typing import NamedTuple


class Timeouts(NamedTuple):
    """Milliseconds; Kafka's names stand in the reference (`controller.quorum.*`)."""

    election: int = 1000
    fetch: int = 2000
    backoff_max: int = 1000
    retry: int = 20
    request: int = 2000
    """How long a change of the voters may take before whoever asked for it is told to ask again."""

    @property
    def desertion(self) -> int:
        """How long a leader believes in itself without hearing from most voters."""
        return self.fetch + self.fetch // 2

    @property
    def announcement(self) -> int:
        """How long a voter may be silent before it is told again who leads."""
        return self.fetch // 2


DEFAULT_TIMEOUTS = Timeouts()

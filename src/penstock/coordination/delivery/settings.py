"""What a group's configuration says to the machine of its deliveries."""

from __future__ import annotations

from typing import NamedTuple


class Backoff(NamedTuple):
    """How long a record that came back waits before it is delivered again.

    After the n-th delivery: initial times multiplier to the power of n - 1, at most `max_ms`, and
    by `jitter` (0 to 1) more or less, by chance. Without a first wait there is none at all.
    """

    initial_ms: int = 0
    max_ms: int = 0
    multiplier: float = 1.0
    jitter: float = 0.0


class DeliverySettings(NamedTuple):
    """Of one share group; a change is for what happens from then on."""

    lock_ms: int = 30_000
    count_max: int = 5
    """Deliveries of one record before it is given up."""
    in_flight_max: int = 2_000
    """Records between the first that is not done with and the last that went out."""
    renewable: bool = True
    backoff: Backoff = Backoff()
    buries: bool = False
    """Whether records that are given up go to a dead-letter topic first."""

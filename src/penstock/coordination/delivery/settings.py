"""What a group's configuration says to the machine of its deliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.model.ids import Millis
    from penstock.platform.chance import Chance


class Backoff(NamedTuple):
    """How long a record that came back waits before it is delivered again.

    After the n-th delivery: initial times multiplier to the power of n - 1, at most `max_ms`; then
    by `jitter` (0 to 1) more or less, by chance. Without a first wait there is none at all.
    """

    initial_ms: int = 0
    max_ms: int = 0
    multiplier: float = 1.0
    jitter: float = 0.0

    def wait_ms(self, count: int, chance: Chance) -> int:
        """How long records wait that came back from their `count`-th delivery."""
        if self.initial_ms <= 0:
            return 0
        wait_ms = self._usual_ms(count)
        spread = int(wait_ms * self.jitter)
        return max(0, wait_ms + chance.between(-spread, spread)) if spread else wait_ms

    def left_ms(self, count: int, not_before: Millis, now: Millis) -> int:
        """How much is left of a wait that ends at a wall time. The clock may have been turned, or
        it was another broker's: no wait becomes longer by that than it was to be."""
        if self.initial_ms <= 0 or not_before <= now:
            return 0
        usual_ms = self._usual_ms(count)
        return min(not_before - now, usual_ms + int(usual_ms * self.jitter))

    def _usual_ms(self, count: int) -> int:
        """Without what chance adds or takes."""
        limit = max(self.initial_ms, self.max_ms)
        wait = float(self.initial_ms)
        for _ in range(count - 1):
            wait *= self.multiplier
            if wait >= limit or self.multiplier <= 1:
                break
        return int(min(wait, limit))


class DeliverySettings(NamedTuple):
    """Of one share group; a change is for what happens from then on."""

    lock_ms: int = 30_000
    count_max: int = 5
    """Deliveries of one record before it is given up."""
    in_flight_max: int = 2_000
    """Records that were read and are not done with. Records that wait for their back-off are among
    them, those behind that are done with are not: one that waits long does not stop the others."""
    renewable: bool = True
    backoff: Backoff = Backoff()
    buries: bool = False
    """Whether records that are given up go to a dead-letter topic first."""

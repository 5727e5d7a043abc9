"""How long to wait before a message is tried again, and how often."""

from __future__ import annotations

import math
from dataclasses import dataclass

TRIES_MAX = 10_000
WAIT_SECONDS_MAX = 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits between tries, in seconds.

    `Backoff(first=1, multiplier=2, longest=60, tries=5)` waits 1, 2, 4 and 8 seconds between five
    tries. `Backoff.of(10, 60, 600)` waits ten seconds, a minute, ten minutes: four tries.

    `tries` counts every call of the handler for one message, the first included. A `jitter` of 0.1
    makes each wait up to a tenth longer or shorter, by chance, so that what failed together is not
    tried again together.
    """

    first: float = 1.0
    multiplier: float = 2.0
    longest: float = 600.0
    jitter: float = 0.0
    tries: int = 5
    steps: tuple[float, ...] = ()
    """If given, these are the waits, and the last is repeated; see `of`."""

    @classmethod
    def of(cls, *steps: float, tries: int | None = None, jitter: float = 0.0) -> Backoff:
        """Exactly these waits; the last is repeated if `tries` asks for more than they allow."""
        if not steps:
            raise ValueError("Backoff.of wants at least one wait in seconds, as in of(10, 60)")
        tries = len(steps) + 1 if tries is None else tries
        return cls(steps=tuple(map(float, steps)), longest=max(steps), tries=tries, jitter=jitter)

    def __post_init__(self) -> None:
        waits = (*self.steps, self.first, self.longest)
        if not all(0 <= wait <= WAIT_SECONDS_MAX for wait in waits):
            raise ValueError(f"waits are seconds from 0 to a year, not {waits}")
        if not 1 <= self.multiplier <= 1_000:
            raise ValueError(
                f"multiplier is {self.multiplier}, expected 1 (always the same) and up"
            )
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter is {self.jitter}, expected a part from 0 to 1")
        if not 1 <= self.tries <= TRIES_MAX:
            raise ValueError(f"tries is {self.tries}, expected 1 to {TRIES_MAX}")

    def wait(self, tried: int, chance: float = 0.5) -> float:
        """Seconds to wait after the `tried`-th try; `chance`, from 0 to 1, decides the jitter."""
        return self._plain(tried) * (1 + self.jitter * (2 * chance - 1))

    def waits(self) -> list[float]:
        """The different waits that there are between the tries, without jitter, shortest first."""
        found: set[float] = set()
        for tried in range(1, self.tries):
            wait = self._plain(tried)
            found.add(wait)
            if not self.steps and wait == self.longest:
                break
        return sorted(found)

    def _plain(self, tried: int) -> float:
        if self.steps:
            return self.steps[min(tried, len(self.steps)) - 1]
        if self.first == 0 or self.multiplier == 1:
            return min(self.first, self.longest)
        # As powers of two, because the power itself may be more than a float can hold.
        doublings = math.log2(self.multiplier) * (tried - 1)
        return min(self.first * math.pow(2, min(doublings, 512)), self.longest)

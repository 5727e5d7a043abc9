"""How fast something goes, and how long to wait until it goes slowly enough. Pure: numbers only.

Time comes in as milliseconds of a clock that only grows.
"""

from __future__ import annotations

from collections import deque

SAMPLES = 11
SAMPLE_MS = 1000
"""Kafka's defaults of quota.window.num and quota.window.size.seconds."""

WAIT_MS_MAX = 2**31 - 1
"""What an answer can hold: a bound may be as small as numbers go."""


class _Sample:
    __slots__ = ("begun", "latest", "total")

    def __init__(self, now: int) -> None:
        self.begun = now
        self.latest = now
        self.total = 0.0


class Rate:
    """What goes by in a second, measured as Kafka does: over the last samples.

    A sample begins with what it measures first and is full after its time, so that a pause makes
    none. The window is taken to be as long as all samples but one from the very beginning: what
    comes first may come fast, and is spread over the time that follows.
    """

    __slots__ = ("_kept", "_sample_ms", "_samples", "_total")

    def __init__(self, samples: int = SAMPLES, sample_ms: int = SAMPLE_MS) -> None:
        self._samples = samples
        self._sample_ms = sample_ms
        self._kept: deque[_Sample] = deque()
        self._total = 0.0

    def record(self, value: float, now: int) -> None:
        """`value` more went by; a negative one takes back what did not."""
        kept = self._kept
        if not kept or now - kept[-1].begun >= self._sample_ms:
            if len(kept) > self._samples:
                self._forget()  # one more than asked for: the oldest reaches into the window
            kept.append(_Sample(now))
        sample = kept[-1]
        sample.total += value
        sample.latest = now
        self._total += value

    def per_second(self, now: int) -> float:
        """The rate up to now."""
        window_ms = self.window_ms(now)
        return self._total * 1000 / window_ms

    def window_ms(self, now: int) -> int:
        """Over how long the rate is measured now."""
        kept = self._kept
        oldest = now - self._samples * self._sample_ms
        while kept and kept[0].latest <= oldest:
            self._forget()
        elapsed = now - kept[0].begun if kept else 0
        missing = self._samples - 1 - elapsed // self._sample_ms
        return max(elapsed + max(missing, 0) * self._sample_ms, 1)

    def wait_ms(self, per_second_max: float, now: int) -> int:
        """How long nothing may go by until the rate is down to the bound; 0 if it is."""
        window_ms = self.window_ms(now)
        excess = self._total * 1000 / window_ms - per_second_max
        return round(min(excess / per_second_max * window_ms, WAIT_MS_MAX)) if excess > 0 else 0

    def _forget(self) -> None:
        self._total -= self._kept.popleft().total
        if not self._kept:
            self._total = 0.0  # what fractions leave behind must not add up

    @property
    def silent(self) -> bool:
        """Whether nothing went by lately."""
        return not any(sample.total for sample in self._kept)


class TokenBucket:
    """Leave to do things: it grows steadily, up to what a whole window grants.

    What is taken may exceed what is there; then it takes until the debt is paid. A burst is not
    held against its author for a whole window, as a rate's is.
    """

    __slots__ = ("_refilled", "_tokens", "_window_seconds", "per_second")

    def __init__(self, per_second: float, now: int, window_ms: int = SAMPLES * SAMPLE_MS) -> None:
        self.per_second = per_second
        self._window_seconds = window_ms / 1000
        self._tokens = per_second * self._window_seconds
        self._refilled = now

    def take(self, count: float, now: int) -> None:
        """Use up `count` tokens, whether or not they are there."""
        self._refill(now)
        self._tokens -= count

    def wait_ms(self, now: int) -> int:
        """How long until there is no debt; 0 if there is none."""
        self._refill(now)
        debt = -self._tokens
        return round(min(debt / self.per_second * 1000, WAIT_MS_MAX)) if debt > 0 else 0

    def _refill(self, now: int) -> None:
        room = self.per_second * self._window_seconds
        grown = self._tokens + self.per_second * (now - self._refilled) / 1000
        self._tokens = min(room, grown)
        self._refilled = now

"""How fast throttled partitions are copied: a measured rate, a bound, and whom it concerns. Pure.

Leaders and followers have a throttle each. It holds back those who are catching up, never those
who are in sync: a reassignment must not slow down what it does not move.
"""

from __future__ import annotations

from collections.abc import Iterable

UNBOUNDED = 2**63 - 1
EVERY_REPLICA = "*"

SAMPLES = 11
SAMPLE_MS = 1000
"""Kafka's replication.quota.window.num and .size.seconds."""


class Rate:
    """Bytes a second, over the last few samples."""

    __slots__ = ("_begun", "_counts", "_sample_ms", "_samples", "_total")

    def __init__(self, samples: int = SAMPLES, sample_ms: int = SAMPLE_MS) -> None:
        self._samples = samples
        self._sample_ms = sample_ms
        self._counts: dict[int, int] = {}  # by number of the sample, ascending
        self._total = 0
        self._begun = 0

    def record(self, size: int, now: int) -> None:
        """`size` more bytes went by."""
        self._forget(now)
        number = now // self._sample_ms
        if not self._counts:
            self._begun = now
        self._counts[number] = self._counts.get(number, 0) + size
        self._total += size

    def per_second(self, now: int) -> float:
        """The rate up to now."""
        self._forget(now)
        if not self._counts:
            return 0.0
        oldest = max(self._begun, next(iter(self._counts)) * self._sample_ms)
        # Never over less than one sample: the first bytes would look like a flood.
        return self._total * 1000 / max(now - oldest, self._sample_ms)

    def _forget(self, now: int) -> None:
        first = now // self._sample_ms - self._samples + 1
        while self._counts and (oldest := next(iter(self._counts))) < first:
            self._total -= self._counts.pop(oldest)


class Throttle:
    """One direction of throttled replication on one node."""

    __slots__ = ("_rate", "_replicas", "rate_max")

    def __init__(self, samples: int = SAMPLES, sample_ms: int = SAMPLE_MS) -> None:
        self.rate_max = UNBOUNDED
        self._rate = Rate(samples, sample_ms)
        self._replicas: dict[str, frozenset[int] | None] = {}  # None stands for all of a topic's

    @property
    def active(self) -> bool:
        """Whether anything is throttled at all; ask this first, it is nearly always False."""
        return bool(self._replicas)

    def concerns(self, topic: str, index: int) -> bool:
        """Whether a partition is one of the throttled ones."""
        indexes = self._replicas.get(topic, frozenset())
        return indexes is None or index in indexes

    def choose(self, topic: str, replicas: Iterable[str], node_id: int) -> None:
        """Throttle these of a topic's replicas: PARTITION:BROKER each, or * for all."""
        listed = [each.strip() for each in replicas if each.strip()]
        if EVERY_REPLICA in listed:
            self._replicas[topic] = None
            return
        chosen = frozenset(
            int(index)
            for index, _, node in (each.partition(":") for each in listed)
            if index.isdecimal() and node == str(node_id)
        )
        if chosen:
            self._replicas[topic] = chosen
        else:
            self._replicas.pop(topic, None)

    def record(self, size: int, now: int) -> None:
        """Throttled bytes went by, those of replicas in sync included."""
        self._rate.record(size, now)

    def exceeded(self, now: int) -> bool:
        """Whether whoever is not in sync has to wait."""
        return self._rate.per_second(now) > self.rate_max

"""Who may still come in: how many connections a node has, of whom, and how fast they come. Pure.

As in Kafka, a node that is full lets newcomers wait until somebody leaves; too many of one address
are turned away; too many at a time are slowed down, those of one address by being turned away
late. The listener of the brokers keeps its place: it is slowed and filled by its own bounds alone.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.net.rates import SAMPLE_MS, SAMPLES, Rate

INT_MAX = 2_147_483_647

ADDRESSES_MAX = 10_000
"""Of those whose rate is remembered; who came longest ago is forgotten first."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a node grants to all its listeners together."""

    connections_max: int = INT_MAX
    connections_per_address_max: int = INT_MAX
    overrides: Mapping[str, int] = field(default_factory=dict)
    """Other numbers of connections for some addresses."""
    per_second_max: float = math.inf
    """New connections."""
    samples: int = SAMPLES
    sample_ms: int = SAMPLE_MS


class _Place:
    """One listener's part."""

    __slots__ = ("connections", "connections_max", "per_second_max", "rate")

    def __init__(self, connections_max: int, per_second_max: float, rate: Rate) -> None:
        self.connections = 0
        self.connections_max = connections_max
        self.per_second_max = per_second_max
        self.rate = rate


class Admission:
    """The connections of one node."""

    def __init__(self, bounds: Bounds | None = None, protected: str = "") -> None:
        """`protected` is the listener of the brokers; it is so only if there is another one."""
        self.bounds = bounds or Bounds()
        self.connections = 0
        self.on_room: list[Callable[[], None]] = []
        """Told when somebody left a place that was full."""
        self.on_overfull: list[Callable[[], bool]] = []
        """Asked to close a connection that is not a broker's; whether there was one."""
        self._protected = protected
        self._places: dict[str, _Place] = {}
        self._by_address: Counter[str] = Counter()
        self._rate = self._new_rate()
        self._rates: OrderedDict[str, Rate] = OrderedDict()
        self._rates_max: Mapping[str | None, float] = {}

    def open(self, listener: str, connections_max: int, per_second_max: float) -> None:
        """A listener takes part, with bounds of its own."""
        self._places[listener] = _Place(connections_max, per_second_max, self._new_rate())

    def adjust(self, listener: str, connections_max: int, per_second_max: float) -> None:
        """Other bounds for a listener, from now on."""
        place = self._places[listener]
        place.connections_max = connections_max
        place.per_second_max = per_second_max
        self._tell_of_room()

    def grant_rates(self, rates: Mapping[str | None, float]) -> None:
        """New connections a second, by address; None is for all others."""
        self._rates_max = rates
        if not rates:
            self._rates.clear()

    def protects(self, listener: str) -> bool:
        """Whether a listener keeps its place whatever happens to the others."""
        return listener == self._protected and len(self._places) > 1

    # -- before one is accepted -----------------------------------------------------------------

    def has_room(self, listener: str, arriving: int = 0) -> bool:
        """Whether one more may come in, besides those that are about to."""
        place = self._places[listener]
        if place.connections + arriving >= place.connections_max:
            return False
        full = self.connections + arriving >= self.bounds.connections_max
        return not full or self.protects(listener)

    @property
    def overfull(self) -> bool:
        """Whether brokers took places beyond the bound, which others have to leave."""
        return self.connections > self.bounds.connections_max

    def make_room(self) -> None:
        """Somebody has to leave, for a broker."""
        for ask in self.on_overfull:
            if ask():
                return

    # -- when one was accepted ------------------------------------------------------------------

    def pace_ms(self, listener: str, now: int) -> int:
        """Count a newcomer; answers how long it has to wait, and all behind it."""
        place = self._places[listener]
        wait_ms = self._wait_ms(place.rate, place.per_second_max, now)
        if not self.protects(listener):
            wait_ms = max(wait_ms, self._wait_ms(self._rate, self.bounds.per_second_max, now))
        return wait_ms

    def turn_away_ms(self, listener: str, address: str, now: int) -> int:
        """How long to keep a newcomer whose address comes too fast before it is turned away; 0 if
        it does not. Who is turned away does not count."""
        per_second_max = self._rates_max.get(address, self._rates_max.get(None, math.inf))
        if math.isinf(per_second_max):
            return 0
        rate = self._rate_of(address)
        wait_ms = self._wait_ms(rate, per_second_max, now)
        if wait_ms:
            rate.record(-1, now)
            self._take_back(self._places[listener].rate, now)
            if not self.protects(listener):
                self._take_back(self._rate, now)
        return wait_ms

    def crowded(self, address: str) -> bool:
        """Whether an address has all the connections that it may have."""
        allowed = self.bounds.overrides.get(address, self.bounds.connections_per_address_max)
        return self._by_address[address] >= allowed if allowed < INT_MAX else False

    # -- those who are in -----------------------------------------------------------------------

    def enter(self, listener: str, address: str) -> None:
        """One more has come in."""
        self.connections += 1
        self._places[listener].connections += 1
        self._by_address[address] += 1

    def leave(self, listener: str, address: str) -> None:
        """One of them has gone."""
        place = self._places[listener]
        was_full = not self.has_room(listener) or self.connections >= self.bounds.connections_max
        self.connections -= 1
        place.connections -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        if was_full:
            self._tell_of_room()

    def _tell_of_room(self) -> None:
        for tell in self.on_room:
            tell()

    # -- rates ----------------------------------------------------------------------------------

    def _new_rate(self) -> Rate:
        return Rate(self.bounds.samples, self.bounds.sample_ms)

    def _wait_ms(self, rate: Rate, per_second_max: float, now: int) -> int:
        if per_second_max >= INT_MAX:
            return 0
        rate.record(1, now)
        if per_second_max <= 0:
            return self.bounds.sample_ms
        return min(rate.wait_ms(per_second_max, now), self.bounds.sample_ms)

    def _take_back(self, rate: Rate, now: int) -> None:
        if not rate.silent:
            rate.record(-1, now)

    def _rate_of(self, address: str) -> Rate:
        rate = self._rates.get(address)
        if rate is None:
            if len(self._rates) >= ADDRESSES_MAX:
                self._rates.popitem(last=False)
            rate = self._rates[address] = self._new_rate()
        else:
            self._rates.move_to_end(address)
        return rate

"""What clients may use of this node, and what they have used of it lately. Pure: time comes in.

Bytes written and read and the time that requests take are rates over a window; changes of metadata
are tokens, of which a burst may take a window's worth. Who uses more is answered with the time that
they have to wait, and is not read from for so long (see `quota_account`).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.net.rates import Rate, TokenBucket
from penstock.protocol.api_keys import ApiKey
from penstock.server.quota_table import (
    FETCH,
    MUTATIONS,
    PRODUCE,
    REQUEST,
    QuotaTable,
    rates_of_addresses,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.metadata.quotas import ClientQuotasImage, Entity
    from penstock.model.config.node import NodeConfig
    from penstock.server.call import Call

METERS_MAX = 10_000
"""Of users and clients whose use is remembered; clients choose their names, and could make up any
number. Whoever was not seen for longest is forgotten first."""

STRICT_FROM = {
    int(ApiKey.CREATE_TOPICS): 6,
    int(ApiKey.DELETE_TOPICS): 5,
    int(ApiKey.CREATE_PARTITIONS): 3,
}
"""What takes tokens, and from which version on it is refused when there are none. Older clients do
not know the error: theirs is done, and they wait afterwards."""

_Sharers = tuple[str | None, str | None]


class Rates:
    """The quotas of one kind, and how fast those who have one go."""

    __slots__ = ("_meters", "_sample_ms", "_samples", "_table", "_wait_ms_max")

    def __init__(self, samples: int, sample_ms: int, wait_ms_max: int = 2**31 - 1) -> None:
        self._samples = samples
        self._sample_ms = sample_ms
        self._wait_ms_max = wait_ms_max
        self._table = QuotaTable({}, "")
        self._meters: OrderedDict[_Sharers, Rate] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._table)

    def set(self, table: QuotaTable) -> None:
        """New quotas; what was used stays used."""
        self._table = table
        if not table:
            self._meters.clear()

    def charge(self, user: str, client_id: str, value: float, now: int) -> int:
        """Add to what was used; answers how many milliseconds to wait."""
        share = self._table.share_of(user, client_id)
        if share is None:
            return 0
        meter = self._meter(share.sharers)
        meter.record(value, now)
        return min(meter.wait_ms(share.per_second, now), self._wait_ms_max)

    def charge_if_granted(self, user: str, client_id: str, value: float, now: int) -> int:
        """Add to what was used, unless that is too much already: then say how long to wait.

        Kafka holds back what would be too much with the new bytes. Counted so, large answers fall
        up to a half short of what is granted, and a batch larger than a window's worth never
        leaves. Here one answer may exceed the bound, and the next ones wait for it.
        """
        share = self._table.share_of(user, client_id)
        if share is None:
            return 0
        meter = self._meter(share.sharers)
        wait_ms = meter.wait_ms(share.per_second, now)
        if not wait_ms:
            meter.record(value, now)
        return min(wait_ms, self._wait_ms_max)

    def window_max(self, user: str, client_id: str) -> float:
        """What can be used at once without having to wait, by who used nothing before."""
        share = self._table.share_of(user, client_id)
        if share is None:
            return math.inf
        return share.per_second * max(self._samples - 1, 1) * self._sample_ms / 1000

    def _meter(self, sharers: _Sharers) -> Rate:
        meter = self._meters.get(sharers)
        if meter is None:
            if len(self._meters) >= METERS_MAX:
                self._meters.popitem(last=False)
            meter = self._meters[sharers] = Rate(self._samples, self._sample_ms)
        else:
            self._meters.move_to_end(sharers)
        return meter


class Mutations:
    """The leave of one request to change metadata: what decides takes from it as it goes."""

    __slots__ = ("_bucket", "_clock", "_strict", "wait_ms")

    def __init__(self, bucket: TokenBucket, strict: bool, clock: Callable[[], int]) -> None:
        self._bucket = bucket
        self._strict = strict
        self._clock = clock
        self.wait_ms = 0
        """How long who asked has to wait now."""

    def take(self, count: int) -> ErrorCode:
        """Use up a token for each partition that comes or goes; an error if none may."""
        now = self._clock()
        if self._strict:
            self.wait_ms = self._bucket.wait_ms(now)
            if self.wait_ms:
                return ErrorCode.THROTTLING_QUOTA_EXCEEDED
            self._bucket.take(count, now)
        else:
            self._bucket.take(count, now)
            self.wait_ms = self._bucket.wait_ms(now)
        return ErrorCode.NONE


class Quotas:
    """All the quotas of one node, kept as the metadata says."""

    def __init__(self, config: NodeConfig, clock: Callable[[], int]) -> None:
        """`clock` gives milliseconds that only grow."""
        samples = config.get_int("quota.window.num")
        sample_ms = 1000 * config.get_int("quota.window.size.seconds")
        self.clock = clock
        self.produce = Rates(samples, sample_ms)
        self.fetch = Rates(samples, sample_ms)
        # Kafka makes nobody wait for longer than a sample because of the time their requests took.
        self.request = Rates(samples, sample_ms, wait_ms_max=sample_ms)
        self.on_addresses: Callable[[Mapping[str | None, float]], None] = lambda _: None
        """Told how many connections a second each address may make."""
        self._mutations = QuotaTable({}, MUTATIONS)
        self._buckets: OrderedDict[_Sharers, TokenBucket] = OrderedDict()
        self._window_ms = (
            config.get_int("controller.quota.window.num")
            * config.get_int("controller.quota.window.size.seconds")
            * 1000
        )

    @property
    def metering(self) -> bool:
        """Whether any request has to be measured."""
        return bool(self.produce or self.fetch or self.request)

    def on_image(self, image: ClientQuotasImage) -> None:
        """Quotas may have changed."""
        entities: Mapping[Entity, Mapping[str, float]] = image.entities
        self.produce.set(QuotaTable(entities, PRODUCE))
        self.fetch.set(QuotaTable(entities, FETCH))
        self.request.set(QuotaTable(entities, REQUEST))
        self._mutations = QuotaTable(entities, MUTATIONS)
        if not self._mutations:
            self._buckets.clear()
        self.on_addresses(rates_of_addresses(entities))

    def mutations(self, call: Call) -> Mutations | None:
        """The leave of a request to change metadata; None if it may change as much as it wants."""
        if not self._mutations or call.api_key not in STRICT_FROM:
            return None
        share = self._mutations.share_of(call.principal.name, call.client_id or "")
        if share is None:
            return None
        bucket = self._bucket(share.sharers, share.per_second)
        return Mutations(bucket, call.version >= STRICT_FROM[call.api_key], self.clock)

    def _bucket(self, sharers: _Sharers, per_second: float) -> TokenBucket:
        bucket = self._buckets.get(sharers)
        if bucket is None:
            if len(self._buckets) >= METERS_MAX:
                self._buckets.popitem(last=False)
            bucket = TokenBucket(per_second, self.clock(), self._window_ms)
            self._buckets[sharers] = bucket
        else:
            self._buckets.move_to_end(sharers)
            bucket.per_second = per_second
        return bucket

"""Throttled replication: whom it concerns, and how the rate is measured."""

from __future__ import annotations

import pytest

from penstock.replica.throttle import UNBOUNDED, Rate, Throttle


@pytest.mark.parametrize(
    ("replicas", "concerned"),
    [
        ([""], []),
        (["*"], [0, 1, 2]),
        (["0:1", "2:1", "1:2"], [0, 2]),
        ([" 1:1 "], [1]),
        (["1:11", "x:1", "1", "-1:1", ":1"], []),
    ],
)
def test_replicas_are_throttled_by_partition_and_broker(
    replicas: list[str], concerned: list[int]
) -> None:
    throttle = Throttle()
    throttle.choose("t", replicas, node_id=1)
    assert [index for index in range(3) if throttle.concerns("t", index)] == concerned
    assert not throttle.concerns("other", 0)
    assert throttle.active == bool(concerned)
    throttle.choose("t", [], node_id=1)
    assert not throttle.active


def test_nothing_is_exceeded_until_a_rate_is_set() -> None:
    throttle = Throttle()
    throttle.record(10**12, 0)
    assert throttle.rate_max == UNBOUNDED
    assert not throttle.exceeded(1)
    throttle.rate_max = 10**6
    assert throttle.exceeded(1)


def test_the_rate_is_that_of_the_last_samples() -> None:
    rate = Rate(samples=3, sample_ms=1000)
    assert rate.per_second(500) == 0
    rate.record(1000, 500)
    assert rate.per_second(500) == 1000  # over a whole sample, though it has just begun
    assert rate.per_second(2500) == 500
    rate.record(3000, 2500)
    assert rate.per_second(2500) == 2000
    assert rate.per_second(3000) == 3000  # the first one is too old
    assert rate.per_second(9000) == 0


def test_a_steady_stream_is_measured_as_such() -> None:
    rate = Rate()
    for now in range(0, 60_000, 100):
        rate.record(700, now)
    assert 6500 < rate.per_second(60_000) < 7500

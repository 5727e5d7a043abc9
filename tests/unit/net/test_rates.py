"""Rates over a window, and tokens: what Kafka's own arithmetic gives, worked out by hand."""

from __future__ import annotations

import pytest

from penstock.net.rates import Rate, TokenBucket


def test_a_rate_is_measured_over_a_whole_window_from_the_beginning() -> None:
    rate = Rate(samples=11, sample_ms=1000)
    rate.record(1000, 0)
    assert rate.window_ms(0) == 10_000
    assert rate.per_second(0) == 100


def test_the_window_has_its_full_samples_and_the_part_of_the_last_one() -> None:
    rate = Rate(samples=11, sample_ms=1000)
    for now in range(0, 5001, 500):
        rate.record(100, now)
    assert rate.window_ms(5400) == 10_400
    assert rate.per_second(5400) == pytest.approx(1100 / 10.4)


def test_what_is_older_than_the_window_is_forgotten() -> None:
    rate = Rate(samples=11, sample_ms=1000)
    rate.record(1000, 0)
    assert rate.per_second(10_999) > 0
    assert rate.per_second(11_000) == 0
    assert rate.silent


def test_a_long_life_needs_no_more_samples() -> None:
    rate = Rate(samples=3, sample_ms=100)
    for now in range(0, 100_000, 10):
        rate.record(1, now)
    assert rate.per_second(100_000) == pytest.approx(100, rel=0.4)


def test_what_is_taken_back_never_was() -> None:
    rate = Rate()
    rate.record(500, 10)
    rate.record(-500, 10)
    assert rate.per_second(10) == 0
    assert rate.silent


@pytest.mark.parametrize(
    ("bytes_sent", "bound", "wait_ms"),
    [
        (1000, 100, 0),  # exactly what a window of ten seconds grants
        (1100, 100, 1000),  # a tenth more: a tenth of the window
        (2000, 100, 10_000),
        (1001, 100, 10),
    ],
)
def test_the_wait_brings_the_rate_down_to_its_bound(
    bytes_sent: int, bound: int, wait_ms: int
) -> None:
    rate = Rate(samples=11, sample_ms=1000)
    rate.record(bytes_sent, 0)
    assert rate.wait_ms(bound, 0) == wait_ms


def test_who_waits_as_told_keeps_to_the_bound() -> None:
    rate, now, sent = Rate(samples=11, sample_ms=1000), 0, 0
    while now < 120_000:
        rate.record(16_384, now)
        sent += 16_384
        now += max(rate.wait_ms(100_000, now), 1)
    assert sent / 120 == pytest.approx(100_000, rel=0.1)


def test_tokens_allow_a_burst_of_a_whole_window_and_then_the_rate() -> None:
    bucket = TokenBucket(per_second=5, now=0, window_ms=100_000)
    bucket.take(560, 0)
    assert bucket.wait_ms(0) == 12_000
    assert bucket.wait_ms(11_999) == 1
    assert bucket.wait_ms(12_000) == 0


def test_tokens_do_not_pile_up_beyond_a_window() -> None:
    bucket = TokenBucket(per_second=1, now=0, window_ms=10_000)
    bucket.take(11, 1_000_000)
    assert bucket.wait_ms(1_000_000) == 1000


@pytest.mark.parametrize("bound", [5e-324, 1e-300, 1e-9])
def test_a_wait_is_a_number_that_answers_can_hold_whatever_the_bound(bound: float) -> None:
    rate = Rate(samples=11, sample_ms=1000)
    rate.record(1, 0)
    assert rate.wait_ms(bound, 0) == 2**31 - 1
    bucket = TokenBucket(per_second=bound, now=0)
    bucket.take(1, 0)
    assert bucket.wait_ms(0) == 2**31 - 1

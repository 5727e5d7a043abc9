"""How long is waited, and how often is tried."""

from __future__ import annotations

import pytest

from penstock.patterns import Backoff


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (Backoff(first=1, multiplier=2, longest=60, tries=5), [1, 2, 4, 8]),
        (Backoff(first=1, multiplier=10, longest=60, tries=5), [1, 10, 60, 60]),
        (Backoff(first=5, multiplier=1, tries=4), [5, 5, 5]),
        (Backoff(first=0, tries=3), [0, 0]),
        (Backoff(first=30, longest=10, tries=3), [10, 10]),
        (Backoff.of(10, 60, 600), [10, 60, 600]),
        (Backoff.of(10, 60, tries=5), [10, 60, 60, 60]),
        (Backoff(tries=1), []),
    ],
)
def test_waits_between_tries(backoff: Backoff, waits: list[float]) -> None:
    found = [backoff.wait(tried) for tried in range(1, backoff.tries)]
    assert found == pytest.approx(waits)
    assert backoff.waits() == pytest.approx(sorted(set(waits)))


def test_jitter_makes_a_wait_longer_or_shorter_by_its_part() -> None:
    backoff = Backoff(first=10, jitter=0.2)
    found = [backoff.wait(1, chance) for chance in (0.0, 0.5, 1.0)]
    assert found == pytest.approx([8, 10, 12])


def test_the_ten_thousandth_wait_is_the_longest_and_no_overflow() -> None:
    assert Backoff(first=0.001, multiplier=1000, longest=60, tries=10_000).wait(9_999) == 60


@pytest.mark.parametrize(
    "bad",
    [
        {"first": -1},
        {"first": float("nan")},
        {"longest": 1e12},
        {"multiplier": 0.5},
        {"jitter": 2},
        {"tries": 0},
        {"tries": 1_000_000},
        {"steps": (1.0, -1.0)},
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_written(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"expected|seconds"):
        Backoff(**bad)  # type: ignore[arg-type]


def test_no_waits_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one wait"):
        Backoff.of()

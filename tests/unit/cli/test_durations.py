from __future__ import annotations

import pytest

from penstock.cli.durations import age_text, duration_ms
from penstock.cli.failure import USAGE, Failure


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("15M", 900_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("PT1H30M", 5_400_000),
        ("P1DT0.5S", 86_400_500),
        ("P2W", 1_209_600_000),
        ("pt10s", 10_000),
    ],
)
def test_a_duration_is_read_in_short_and_as_kafkas_tools_write_it(text: str, meant: int) -> None:
    assert duration_ms(text, "--by-duration") == meant


@pytest.mark.parametrize("text", ["", "P", "PT", "1", "h", "-1s", "P1Y", "1h30m", "9" * 20 + "d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Failure) as failed:
        duration_ms(text, "--by-duration")
    assert "is not a duration" in failed.value.problem
    assert failed.value.status == USAGE


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, None),
        (0, "0s"),
        (0.4, "0.4s"),
        (12.9, "12s"),
        (185, "3m05s"),
        (7_800, "2h10m"),
        (367_200, "4d06h"),
    ],
)
def test_an_age_has_two_parts_at_most(seconds: float | None, text: str | None) -> None:
    assert age_text(seconds) == text

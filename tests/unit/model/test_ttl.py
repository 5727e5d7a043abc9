"""For how long records want to be delivered."""

from __future__ import annotations

import pytest

from penstock.model.ttl import TTL_MS, expiry_of

MADE_AT = 1_000_000


@pytest.mark.parametrize(
    ("value", "expiry"),
    [
        (b"0", MADE_AT),
        (b"1500", MADE_AT + 1500),
        ((1500).to_bytes(8, "big"), MADE_AT + 1500),
        (b"00000000", MADE_AT),
        (b"9" * 19, MADE_AT + 10**19 - 1),
        # What is no number of milliseconds does not count.
        (b"", None),
        (None, None),
        (b"-1", None),
        (b"1.5", None),
        (b"soon", None),
        (b"9" * 20, None),
        ((-1).to_bytes(8, "big", signed=True), None),
    ],
)
def test_a_header_says_from_when_on_a_record_is_not_delivered(
    value: bytes | None, expiry: int | None
) -> None:
    assert expiry_of([("other", b"1"), (TTL_MS, value)], MADE_AT) == expiry


def test_of_several_headers_the_last_one_counts() -> None:
    assert expiry_of([(TTL_MS, b"1"), (TTL_MS, b"2")], MADE_AT) == MADE_AT + 2
    assert expiry_of([(TTL_MS, b"1"), (TTL_MS, b"never")], MADE_AT) is None


def test_a_record_without_a_header_or_a_time_does_not_expire() -> None:
    assert expiry_of([("other", b"1")], MADE_AT) is None
    assert expiry_of([(TTL_MS, b"1")], -1) is None

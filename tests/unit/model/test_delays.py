"""What records may say about the time of their delivery."""

from __future__ import annotations

import pytest

from penstock.model.delays import DELAY_MS, DELIVER_AT, BadDelay, due_of

NOW = 1_700_000_000_000
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("headers", "due"),
    [
        ([], None),
        ([("other", b"1")], None),
        ([(DELAY_MS, b"1")], NOW + 1),
        ([(DELAY_MS, b"0")], None),
        ([(DELAY_MS, b"000060000")], NOW + 60_000),
        ([(DELAY_MS, str(HOUR).encode())], NOW + HOUR),
        ([("other", None), (DELIVER_AT, str(NOW + 5).encode())], NOW + 5),
        ([(DELIVER_AT, str(NOW).encode())], None),
        ([(DELIVER_AT, b"0")], None),
        ([(DELIVER_AT, (NOW + 7).to_bytes(8, "big"))], NOW + 7),
        ([(DELAY_MS, (9).to_bytes(8, "big"))], NOW + 9),
        ([(DELAY_MS, b"00001234")], NOW + 1234),  # eight digits are digits
    ],
)
def test_a_record_is_due_when_its_header_says(
    headers: list[tuple[str, bytes | None]], due: int | None
) -> None:
    assert due_of(headers, NOW, HOUR) == due


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ([(DELAY_MS, b"-1")], "is negative"),
        ([(DELIVER_AT, b"-1234567")], "is negative"),
        ([(DELAY_MS, (-5).to_bytes(8, "big", signed=True))], "is negative"),
        ([(DELAY_MS, b"")], "is no number"),
        ([(DELAY_MS, None)], "is no number"),
        ([(DELAY_MS, b"1.5")], "is no number"),
        ([(DELAY_MS, b" 15")], "is no number"),
        ([(DELAY_MS, b"+15")], "is no number"),
        ([(DELAY_MS, "\u0665".encode())], "is no number"),
        ([(DELAY_MS, b"9" * 5000)], "is no number"),
        ([(DELIVER_AT, b"2031-01-01")], "is no number"),
        ([(DELAY_MS, b"\0\0\0\1")], "is no number"),
        ([(DELAY_MS, str(HOUR + 1).encode())], "is the most"),
        ([(DELIVER_AT, str(NOW + HOUR + 1).encode())], "is the most"),
        ([(DELIVER_AT, b"9" * 19)], "is the most"),
        ([(DELAY_MS, b"1"), (DELIVER_AT, b"1")], "more than one"),
        ([(DELAY_MS, b"1"), (DELAY_MS, b"1")], "more than one"),
    ],
)
def test_what_makes_no_sense_is_refused_and_the_reason_is_said(
    headers: list[tuple[str, bytes | None]], why: str
) -> None:
    with pytest.raises(BadDelay, match=why):
        due_of(headers, NOW, HOUR)

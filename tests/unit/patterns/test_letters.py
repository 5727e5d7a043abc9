"""Dead letters and retry copies: what is written, and what is read back."""

from __future__ import annotations

import pytest

from penstock.model import dead_letters
from penstock.model.delays import DELAY_MS
from penstock.patterns.letters import dead_letter, from_retry, retry_copy
from penstock.patterns.message import Message

ORDER = Message(
    "orders", 3, 41, b"k", b"v", (("trace", b"1"), ("penstock-ttl-ms", b"60000")), 1_000, attempt=2
)


def test_a_dead_letter_is_the_message_and_what_went_wrong() -> None:
    letter = dead_letter("dlq.orders", ORDER, "billing", "failed", "ValueError: no", 5_000)
    assert (letter.topic, letter.key, letter.value) == ("dlq.orders", b"k", b"v")
    assert letter.headers == (
        ("trace", b"1"),
        ("penstock-ttl-ms", b"60000"),
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"41"),
        ("__dlq.errors.group", b"billing"),
        ("__dlq.errors.delivery.count", b"2"),
        ("__dlq.errors.message", b"ValueError: no"),
        ("penstock-dlq-reason", b"failed"),
        ("penstock-dlq-time", b"5000"),
    )


def test_a_second_death_tells_of_itself_alone() -> None:
    first = dead_letter("dlq.orders", ORDER, "billing", "failed", "first", 5_000)
    again = Message("orders", 3, 99, b"k", b"v", first.headers)
    second = dead_letter("dlq.orders", again, "billing", "failed", "second", 6_000)
    told = [value for name, value in second.headers if name == dead_letters.MESSAGE]
    assert told == [b"second"]


def test_a_letter_that_is_too_large_keeps_where_and_why() -> None:
    bare = dead_letter("dlq.orders", ORDER, "billing", "failed", "no", 5_000).bare()
    names = {name for name, _ in bare.headers}
    assert (bare.key, bare.value) == (None, None)
    assert "trace" not in names
    assert {dead_letters.TOPIC, dead_letters.OFFSET, dead_letters.MESSAGE} <= names
    assert (dead_letters.COPIED, b"false") in bare.headers


def test_a_long_reason_is_cut_between_letters() -> None:
    letter = dead_letter("dlq.orders", ORDER, "billing", "failed", "é" * 5_000, 0)
    (told,) = (value for name, value in letter.headers if name == dead_letters.MESSAGE)
    assert told == "é".encode() * 500


def test_a_retry_copy_is_read_back_as_the_message_it_stands_for() -> None:
    letter = retry_copy("retry.billing.orders", ORDER, 9_000, 8_000)
    assert (DELAY_MS, b"8000") in letter.headers
    copy = Message("retry.billing.orders", 0, 7, letter.key, letter.value, letter.headers, 9_001)
    assert from_retry(copy) == (ORDER, 9_000)


def test_a_message_without_a_timestamp_is_read_back_without_one() -> None:
    timeless = Message("orders", 3, 41, b"k", b"v", attempt=2)
    letter = retry_copy("retry.billing.orders", timeless, 9_000, None)
    copy = Message("retry.billing.orders", 0, 7, letter.key, letter.value, letter.headers, 9_001)
    assert from_retry(copy) == (timeless, 9_000)


def test_a_copy_of_a_copy_has_each_header_once() -> None:
    letter = retry_copy("retry.billing.orders", ORDER, 9_000, 8_000)
    copy = Message("retry.billing.orders", 0, 7, letter.key, letter.value, letter.headers, 9_001)
    again = retry_copy("retry.billing.orders", from_retry(copy)[0], 20_000, 8_000)
    names = [name for name, _ in again.headers]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("penstock-retry-topic", b"orders"),),
        (("penstock-retry-topic", b"\xff"), ("penstock-retry-offset", b"-1")),
        tuple(
            (f"penstock-retry-{name}", b"9" * 100)
            for name in ("topic", "partition", "offset", "timestamp", "attempt", "due")
        ),
    ],
)
def test_what_a_stranger_wrote_to_a_retry_topic_is_a_message_like_any_other(
    headers: tuple[tuple[str, bytes], ...],
) -> None:
    copy = Message("retry.billing.orders", 0, 7, b"k", b"v", headers)
    assert from_retry(copy) == (copy, None)


@pytest.mark.parametrize(
    ("ttl", "expires"),
    [(b"500", 1_500), (b"0", 1_000), (b"-1", None), (b"soon", None), (b"", None)],
)
def test_a_message_expires_by_its_header_if_that_is_a_number(
    ttl: bytes, expires: int | None
) -> None:
    message = Message("t", 0, 0, headers=(("penstock-ttl-ms", ttl),), timestamp_ms=1_000)
    assert message.expires_ms == expires

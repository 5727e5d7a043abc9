"""Durations, sizes, and other texts with a spelling of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipeline.spec.entries import Shape
from penstock.pipeline.spec.shapes import (
    Misshapen,
    duration_ms,
    is_schema_file,
    shaped,
    size_bytes,
    split_python,
    split_watermark,
    split_window,
)


@pytest.mark.parametrize(
    ("text", "milliseconds", "spelling"),
    [
        ("10 seconds", 10_000, "10 seconds"),
        ("1 second", 1000, "1 seconds"),
        (" 10  Seconds ", 10_000, "10 seconds"),
        ("500ms", 500, "500 milliseconds"),
        ("90s", 90_000, "90 seconds"),
        ("5m", 300_000, "5 minutes"),
        ("2h", 7_200_000, "2 hours"),
        ("1d", 86_400_000, "1 days"),
        ("1 week", 604_800_000, "1 weeks"),
        ("1 hour 30 minutes", 5_400_000, "1 hours 30 minutes"),
        ("0 seconds", 0, "0 seconds"),
    ],
)
def test_durations(text: str, milliseconds: int, spelling: str) -> None:
    assert duration_ms(text) == milliseconds
    assert shaped(Shape.DURATION, text, "") == spelling


@pytest.mark.parametrize(
    "text",
    ["10", "seconds", "-1 seconds", "1.5 seconds", "10 parsecs", "1 month", "10s,", "٣ days"],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Misshapen):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("512", 512),
        ("1k", 1024),
        ("64m", 64 << 20),
        ("64 MiB", 64 << 20),
        ("1GB", 1 << 30),
        ("2t", 2 << 40),
        ("7b", 7),
    ],
)
def test_sizes(text: str, count: int) -> None:
    assert size_bytes(text) == count


@pytest.mark.parametrize("text", ["", "m", "64x", "-1m", "1.5g", "64mm"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Misshapen):
        size_bytes(text)


def test_a_watermark_is_a_column_and_a_duration() -> None:
    assert split_watermark("at 10m") == ("at", "10 minutes")
    for wrong in ("at", "10 minutes", "at soon", ""):
        with pytest.raises(Misshapen):
            split_watermark(wrong)


def test_a_window_may_slide() -> None:
    assert split_window("5 minutes") == ("5 minutes", "")
    assert split_window("5 minutes / 1m") == ("5 minutes", "1 minutes")
    assert shaped(Shape.WINDOW, "session", "") == "session"
    for wrong in ("5", "/", "5 minutes /", "5 minutes / 1 minute / 1 second", "tumbling"):
        with pytest.raises(Misshapen):
            shaped(Shape.WINDOW, wrong, "")


def test_python_is_a_file_and_a_name() -> None:
    assert split_python("steps/all.py:enrich") == ("steps/all.py", "enrich")
    for wrong in ("enrich", "steps:enrich", "steps.py", "steps.py:", "steps.py:a.b", "steps.py:1"):
        with pytest.raises(Misshapen):
            split_python(wrong)


def test_a_schema_is_a_file_if_it_ends_as_one() -> None:
    assert is_schema_file("schemas/order.avsc")
    assert is_schema_file("order.json")
    assert not is_schema_file("id long, data string")
    assert not is_schema_file("id long,\nname string")


@pytest.mark.parametrize(
    "text", ["localhost:9092", "a:1, b:2", "[::1]:9092", "10.0.0.1:9092", "SASL_SSL://a.b-c.d:9093"]
)
def test_brokers_are_hosts_with_ports(text: str) -> None:
    assert shaped(Shape.BROKERS, text, "") == text.replace(" ", "")


@pytest.mark.parametrize("text", ["localhost", ":9092", "a:b", "a:1 b:2", "a:1,", "http://a:1/x"])
def test_what_is_no_broker_is_refused(text: str) -> None:
    with pytest.raises(Misshapen):
        shaped(Shape.BROKERS, text, "")


@given(st.sampled_from(list(Shape)), st.text())
def test_any_text_is_given_back_or_refused(shape: Shape, text: str) -> None:
    try:
        again = shaped(shape, text, "/nowhere")
    except Misshapen as refusal:
        assert refusal.advice
    else:
        assert shaped(shape, again, "/nowhere") == again, "a spelling is final"

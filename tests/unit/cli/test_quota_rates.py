from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.failure import USAGE, Failure
from penstock.cli.quota_rates import BY_OPTION, KEYS, Key, rate_of, rate_text
from penstock.cli.quotas import CLIENT, IP, USER, entity_of, named


@pytest.mark.parametrize(
    ("option", "text", "rate"),
    [
        ("produce", "1048576", 1_048_576),
        ("produce", "10MB/s", 10_000_000),
        ("produce", "10mb", 10_000_000),
        ("produce", "1.5 MiB/s", 1_572_864),
        ("fetch", "512KiB/s", 524_288),
        ("fetch", "2GBps", 2_000_000_000),
        ("request", "50%", 50),
        ("request", "12.5", 12.5),
        ("mutations", "5/s", 5),
        ("connections", "0.5", 0.5),
    ],
)
def test_rates_are_read_as_people_write_them(option: str, text: str, rate: float) -> None:
    assert rate_of(BY_OPTION[option], text) == rate


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("produce", ""),
        ("produce", "fast"),
        ("produce", "10%"),
        ("produce", "10MB/h"),
        ("produce", "-1"),
        ("produce", "0"),
        ("produce", "1e3"),
        ("produce", "nan"),
        ("produce", "9" * 400),
        ("request", "50MB"),
        ("request", "50%/s"),
        ("mutations", "5MB/s"),
    ],
)
def test_what_is_no_rate_of_its_kind_is_refused_with_an_example(option: str, text: str) -> None:
    with pytest.raises(Failure) as failed:
        rate_of(BY_OPTION[option], text)
    assert failed.value.status == USAGE
    assert "such as" in failed.value.hint


@pytest.mark.parametrize(
    ("key", "rate", "text"),
    [
        ("producer_byte_rate", 1_048_576.0, "1 MiB/s"),
        ("producer_byte_rate", 10_000_000.0, "10 MB/s"),
        ("consumer_byte_rate", 1_500.0, "1.5 kB/s"),
        ("consumer_byte_rate", 123_456_789.0, "123456789 B/s"),
        ("request_percentage", 12.5, "12.5%"),
        ("controller_mutation_rate", 5.0, "5/s"),
        ("a_new_one", 5.0, "5"),
    ],
)
def test_rates_are_shown_as_people_read_them(key: str, rate: float, text: str) -> None:
    assert rate_text(key, rate) == text


@given(st.sampled_from(KEYS[:2]), st.integers(1, 10**14))
def test_a_rate_that_is_shown_can_be_set_again(key: Key, rate: int) -> None:
    assert rate_of(key, rate_text(key.name, float(rate))) == pytest.approx(rate)


def test_an_entity_is_a_user_a_client_both_or_an_address() -> None:
    assert entity_of("alice", "app", None, False, False, False) == (
        (USER, "alice"),
        (CLIENT, "app"),
    )
    assert entity_of(None, None, None, True, False, False) == ((USER, None),)
    assert entity_of(None, None, "10.0.0.7", False, False, False) == ((IP, "10.0.0.7"),)
    assert entity_of(None, None, None, False, False, False) == ()
    assert named(((USER, "alice"), (CLIENT, None))) == "user alice, every other client-id"


def test_entities_that_cannot_be_are_refused() -> None:
    with pytest.raises(Failure):
        entity_of("alice", None, None, True, False, False)
    with pytest.raises(Failure):
        entity_of("alice", None, "10.0.0.7", False, False, False)
    with pytest.raises(Failure):
        entity_of("", None, None, False, False, False)

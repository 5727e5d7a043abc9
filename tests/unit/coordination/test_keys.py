"""Names find the shards that Kafka would send them to."""

from __future__ import annotations

import pytest

from penstock.coordination import keys
from penstock.coordination.keys import java_hash, shard_of


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(1 << 31)),  # known for this
        ("\N{ROCKET}", 1773027),  # two units
    ],
)
def test_the_hash_is_javas(text: str, code: int) -> None:
    assert java_hash(text) == code


def test_long_names_have_shards_but_are_not_remembered() -> None:
    before = keys._remembered_hash.cache_info().currsize
    assert shard_of("x" * 30_000, 50) == shard_of("x" * 30_000, 50)
    assert keys._remembered_hash.cache_info().currsize == before


def test_the_least_integer_has_a_shard() -> None:
    assert shard_of("polygenelubricants", 50) == 0
    assert shard_of("hello", 50) == 22

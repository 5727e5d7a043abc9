"""Texts become typed values, and values the texts that Kafka prints."""

from __future__ import annotations

import pytest

from penstock.model.config import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    ConfigKey,
    InvalidConfig,
    own,
    parse,
    text_of,
)
from penstock.model.config.rules import duration_ms, rule_of, words_of
from penstock.model.config.values import HIDDEN, default_text, java_double

EVERY_KEY = [
    *BROKER_KEYS.values(),
    *TOPIC_KEYS.values(),
    *GROUP_KEYS.values(),
    *CLIENT_METRICS_KEYS.values(),
]


def test_kafka_4_3_has_its_360_broker_34_topic_17_group_and_3_client_metrics_keys() -> None:
    tables = (BROKER_KEYS, TOPIC_KEYS, GROUP_KEYS, CLIENT_METRICS_KEYS)
    assert [len(table.keys() - own.NAMES) for table in tables] == [360, 34, 17, 3]


@pytest.mark.parametrize("key", EVERY_KEY, ids=repr)
def test_a_default_reads_back_from_its_own_text(key: ConfigKey) -> None:
    text = default_text(key)
    if text is None:
        assert key.required or key.default is None
    else:
        assert parse(key, text) == key.default


@pytest.mark.parametrize("key", EVERY_KEY, ids=repr)
def test_every_key_is_described_in_words_of_ours_and_has_a_status(key: ConfigKey) -> None:
    assert key.description.endswith(".")
    assert key.status in ("honoured", "planned", "ignored")
    assert key.importance in ("HIGH", "MEDIUM", "LOW")
    assert key.valid == "" or words_of(key.valid)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("num.partitions", " 3 ", 3),
        ("num.partitions", "+3", 3),
        ("num.partitions", "0" * 5000 + "3", 3),
        ("auto.create.topics.enable", "FALSE", False),
        ("log.cleaner.min.cleanable.ratio", "1e-1", 0.1),
        ("log.cleaner.io.max.bytes.per.second", "0x1.8p1", 3.0),
        ("listeners", "A://:1 , B://:2", ("A://:1", "B://:2")),
        ("cordoned.log.dirs", "", ()),
        ("log.dirs", "/a,/b,/a", ("/a", "/b")),
        ("broker.rack", " r 1 ", "r 1"),
        ("ssl.keystore.password", "hush ", "hush"),
        ("metric.reporters", "a.B", ("a.B",)),
        ("group.consumer.migration.policy", "Upgrade", "Upgrade"),
    ],
)
def test_a_text_becomes_a_value_of_the_keys_type(name: str, text: str, value: object) -> None:
    parsed = parse(BROKER_KEYS[name], text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("num.partitions", "x", "expected a whole number of 32 bits"),
        ("num.partitions", "1_000", "expected a whole number of 32 bits"),
        ("num.partitions", "9" * 5000, "expected a whole number of 32 bits"),
        ("num.partitions", "٣", "expected a whole number of 32 bits"),
        ("num.partitions", "0", "expected at least 1"),
        ("offsets.topic.replication.factor", "32768", "expected a whole number of 16 bits"),
        ("log.retention.bytes", "9223372036854775808", "expected a whole number of 64 bits"),
        ("log.cleaner.min.cleanable.ratio", "NaN", "expected 0 to 1"),
        ("log.cleaner.io.max.bytes.per.second", "fast", "expected a number"),
        ("log.preallocate", "on", "expected true or false"),
        ("process.roles", "broker,boss", "expected only broker, controller"),
        ("process.roles", "", "expected at least one value"),
        ("log.dirs", "/a,,/b", "expected no empty value between commas"),
        ("security.inter.broker.protocol", "plaintext", "expected one of PLAINTEXT, SSL"),
        ("controller.quorum.voters", "1@h", "expected ID@HOST:PORT"),
        ("controller.quorum.bootstrap.servers", "h:99999", "expected HOST:PORT"),
        ("remote.log.storage.manager.impl.prefix", "", "expected a text that is not empty"),
        ("group.consumer.migration.policy", "never", "in any case"),
    ],
)
def test_a_text_that_the_key_does_not_take_is_refused_with_what_it_takes(
    name: str, text: str, expected: str
) -> None:
    with pytest.raises(InvalidConfig, match="expected") as refusal:
        parse(BROKER_KEYS[name], text)
    assert expected in str(refusal.value)
    assert name in str(refusal.value)
    assert refusal.value.key == name


def test_a_secret_is_never_shown() -> None:
    assert text_of(BROKER_KEYS["ssl.key.password"], "hush") == HIDDEN


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (1234567.125, "1234567.125"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (-2.5e-9, "-2.5E-9"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_a_double_is_printed_as_java_prints_it(value: float, text: str) -> None:
    assert java_double(value) == text


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("PT1H", 3_600_000),
        ("P1DT1S", 86_401_000),
        ("PT0.25S", 250),
        ("PT-1.5S", -1500),
        ("-PT1M", -60_000),
        ("pt2m", 120_000),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("P1Y", None),
        ("1h", None),
    ],
)
def test_durations_are_iso_8601_of_days_and_time(text: str, millis: int | None) -> None:
    assert duration_ms(text) == millis


def test_a_rule_is_compiled_once() -> None:
    assert rule_of("1..") is rule_of("1..")

"""Configuration takes any text and answers with a value, or with what is wrong; nothing else."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.config import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    ConfigKey,
    ConfigProblems,
    InvalidConfig,
    NodeConfig,
    parse,
)
from penstock.model.config.client_metrics import validate_client_metrics
from penstock.model.config.describe import describe_broker, describe_topic
from penstock.model.config.dynamic import validate_broker_config
from penstock.model.config.groups import validate_group_config
from penstock.model.config.layers import BrokerLayers
from penstock.model.config.sources import properties_entries, toml_entries
from penstock.model.config.topics import effective_topic_config, validate_topic_config
from penstock.model.config.values import text_of

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
}
LAYERS = BrokerLayers(NodeConfig.of(NODE), {}, {})

# Texts that some key takes, texts that nearly are ones, and texts that are none.
LIKELY = st.sampled_from(
    ["", " ", "-1", "0", "1", "true", "delete", "compact,delete", "*", "1:1", "9" * 5000, "1e999",
     "0x1p99999", "-0x1p99999", "NaN", "A://[::1]:1", "A://:70000", "1@h:1", "x:1", "P9D",
     "by_duration:P" + "9" * 30 + "D", "client_id=" + "(" * 500, "PLAINTEXT:PLAINTEXT", ",", "²"]
)  # fmt: skip
NUMBERS = st.integers(-(2**64), 2**64).map(str)
TEXTS = LIKELY | NUMBERS | st.text(max_size=30)


def settings_of(keys: list[str]) -> st.SearchStrategy[dict[str, str]]:
    names = st.sampled_from(sorted(keys)) | st.text(max_size=10)
    return st.dictionaries(names, TEXTS, max_size=5)


@given(st.sampled_from([*BROKER_KEYS.values(), *TOPIC_KEYS.values(), *GROUP_KEYS.values()]), TEXTS)
def test_a_text_is_a_value_that_prints_and_reads_back_or_is_refused(
    key: ConfigKey, text: str
) -> None:
    try:
        value = parse(key, text)
    except InvalidConfig as refusal:
        assert refusal.key == key.name
        return
    if key.sensitive:
        return
    printed = text_of(key, value)
    assert printed is not None
    again = parse(key, printed)
    assert again == value or (isinstance(value, float) and math.isnan(value))


@given(settings_of([*BROKER_KEYS, "listener.name.plaintext.max.connections"]))
def test_a_nodes_settings_are_taken_or_their_problems_are_told(settings: dict[str, str]) -> None:
    try:
        config = NodeConfig.of({**NODE, **settings})
    except ConfigProblems as problems:
        assert problems.problems
        return
    config.notices()
    describe_broker(BrokerLayers(config, {}, {}))


@given(settings_of([*BROKER_KEYS]), st.booleans())
def test_dynamic_settings_that_are_taken_can_be_lived_with(
    settings: dict[str, str], broker: bool
) -> None:
    if validate_broker_config(settings, LAYERS, broker) is None:
        layers = LAYERS._replace(broker=settings)
        assert layers.current.retention_ms >= -1
        describe_broker(layers)
        effective_topic_config({}, layers.current)


@given(settings_of([*TOPIC_KEYS]))
def test_topic_settings_that_are_taken_have_an_effect(settings: dict[str, str]) -> None:
    if validate_topic_config(settings, LAYERS.node) is None:
        effective_topic_config(settings, LAYERS.node)
        described = {entry.name for entry in describe_topic(settings, LAYERS)}
        assert set(settings) <= described


@given(settings_of([*GROUP_KEYS, *CLIENT_METRICS_KEYS]))
def test_groups_and_subscriptions_are_judged_without_surprise(settings: dict[str, str]) -> None:
    for problem in (
        validate_group_config(settings, LAYERS.node),
        validate_client_metrics("m", settings),
    ):
        assert problem is None or problem.error in ("INVALID_CONFIG", "INVALID_REQUEST")


@given(st.text(alphabet="ab=:\\\n\r \t#!u0041[]\".,{}'", max_size=40))
def test_any_file_is_read_or_refused(text: str) -> None:
    for read in (lambda: list(properties_entries(text)), lambda: toml_entries(text)):
        try:
            entries = read()
        except ConfigProblems:
            continue
        assert all(entry.line <= text.count("\n") + text.count("\r") + 1 for entry in entries)


def test_a_listeners_port_cannot_overflow() -> None:
    with pytest.raises(ConfigProblems, match="65535"):
        NodeConfig.of({**NODE, "listeners": "PLAINTEXT://:" + "9" * 5000})

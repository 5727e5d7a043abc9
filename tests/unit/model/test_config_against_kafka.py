"""Penstock's answers about configuration are those that Apache Kafka gave."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.config import NodeConfig, own
from penstock.model.config.client_metrics import validate_client_metrics
from penstock.model.config.describe import (
    Described,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from penstock.model.config.dynamic import validate_broker_config
from penstock.model.config.groups import validate_group_config
from penstock.model.config.layers import BrokerLayers
from penstock.model.config.problems import InvalidConfig
from penstock.model.config.topics import validate_topic_config
from penstock.model.errors import ErrorCode
from tests.unit.model.answers import (
    BROKER,
    CHANGES,
    CLIENT_METRICS,
    GROUP,
    NODE,
    SETTINGS,
    TOPIC,
    described,
    verdicts,
)

NODE_CONFIG = NodeConfig.load(NODE)
LAYERS = BrokerLayers(NODE_CONFIG, SETTINGS[BROKER, "1"], SETTINGS[BROKER, ""])
FRESH = BrokerLayers(NODE_CONFIG, {}, {})


def describe(kind: int, name: str) -> list[Described]:
    settings = SETTINGS[kind, name]
    if kind == TOPIC:
        return describe_topic(settings, LAYERS)
    if kind == GROUP:
        return describe_group(settings, LAYERS)
    if kind == CLIENT_METRICS:
        return describe_client_metrics(settings)
    return describe_broker(LAYERS) if name else describe_cluster_default(LAYERS)


def plain(entry: Described) -> list[Any]:
    synonyms = [list(synonym) for synonym in entry.synonyms]
    return [
        entry.text,
        entry.source,
        entry.sensitive,
        entry.read_only,
        entry.type_id,
        synonyms,
    ]


@pytest.mark.parametrize(("kind", "name"), SETTINGS)
def test_every_key_is_described_with_kafkas_value_source_type_and_synonyms(
    kind: int, name: str
) -> None:
    ours = {
        entry.name: plain(entry) for entry in describe(kind, name) if entry.name not in own.NAMES
    }
    assert ours == described()[f"{kind} {name}"]


def judge(kind: int, name: str, settings: dict[str, str]) -> InvalidConfig | None:
    if kind == TOPIC:
        return validate_topic_config(settings, NODE_CONFIG)
    if kind == GROUP:
        return validate_group_config(settings, NODE_CONFIG)
    if kind == CLIENT_METRICS:
        return validate_client_metrics(name, settings)
    return validate_broker_config(settings, FRESH, broker=bool(name))


@pytest.mark.parametrize(
    ("change", "verdict"),
    list(zip(CHANGES, verdicts(), strict=True)),
    ids=[f"{kind}-{name}-{settings}" for kind, name, settings in CHANGES],
)
def test_a_change_is_taken_or_refused_with_the_error_that_kafka_gives(
    change: tuple[int, str, dict[str, str]], verdict: int
) -> None:
    problem = judge(*change)
    assert (0 if problem is None else int(ErrorCode[problem.error])) == verdict, problem


def test_a_refusal_names_the_key_the_value_and_what_was_expected() -> None:
    problem = validate_topic_config({"segment.bytes": "1000"}, NODE_CONFIG)
    assert str(problem) == (
        "Invalid value 1000 for configuration segment.bytes: expected at least 1048576"
    )
    assert problem is not None
    assert problem.key == "segment.bytes"

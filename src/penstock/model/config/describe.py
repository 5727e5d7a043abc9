"""What DescribeConfigs tells: a key's value, where it comes from, and what it would be otherwise.

The order of precedence is that of Kafka: the resource's own setting, this broker's dynamic one, the
cluster's dynamic default, the node's file, the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from penstock.model.config.client_metrics import effective_client_metrics
from penstock.model.config.dynamic import dynamic_key_of, is_updatable
from penstock.model.config.groups import group_defaults
from penstock.model.config.keys import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    ConfigKey,
)
from penstock.model.config.layers import (
    CLIENT_METRICS_SOURCE,
    DEFAULT_SOURCE,
    DYNAMIC_DEFAULT_SOURCE,
    GROUP_SOURCE,
    TOPIC_SOURCE,
    BrokerLayers,
    Synonym,
)
from penstock.model.config.names import PLUGIN_KEYS, base_name
from penstock.model.config.node import NodeConfig
from penstock.model.config.topics import topic_defaults
from penstock.model.config.values import default_text, parse, text_of

# Kafka's numbers for types, and 0 for a name that is not a key.
TYPE_IDS = {
    "BOOLEAN": 1,
    "STRING": 2,
    "INT": 3,
    "SHORT": 4,
    "LONG": 5,
    "DOUBLE": 6,
    "LIST": 7,
    "CLASS": 8,
    "PASSWORD": 9,
}


SynonymsOf = Callable[[str, bool], list[Synonym]]


class Described(NamedTuple):
    """One key as DescribeConfigs shows it. A secret has no text."""

    name: str
    text: str | None
    source: int
    sensitive: bool
    read_only: bool
    type_id: int
    synonyms: list[Synonym]
    key: ConfigKey | None


def describe_topic(overrides: Mapping[str, str], layers: BrokerLayers) -> list[Described]:
    """Every key of a topic. Topics share what they inherit, so do not change the result."""
    inherited = layers.current.remember("described topic", lambda _: _inherited(layers))
    described = []
    for name, entry in inherited.items():
        text = overrides.get(name)
        if text is not None:
            key = TOPIC_KEYS[name]
            value = parse(key, text)
            described.append(_entry(key, value, overrides, TOPIC_SOURCE, entry.synonyms))
        elif not TOPIC_KEYS[name].internal:
            described.append(entry)
    return described


def _inherited(layers: BrokerLayers) -> dict[str, Described]:
    """Every key of a topic that sets nothing itself."""
    values = topic_defaults(layers.current)
    entries = {}
    for name, key in TOPIC_KEYS.items():
        synonyms = layers.synonyms(key.synonyms[0][0], key.sensitive) if key.synonyms else []
        entries[name] = _entry(key, values[name], {}, TOPIC_SOURCE, synonyms)
    return entries


def describe_group(overrides: Mapping[str, str], layers: BrokerLayers) -> list[Described]:
    """Every key of a group."""
    values = dict(group_defaults(layers.current))
    for name, text in overrides.items():
        if name in GROUP_KEYS:
            values[name] = parse(GROUP_KEYS[name], text)
    described = []
    for name, key in GROUP_KEYS.items():
        if key.synonyms:
            inherited = layers.synonyms(key.synonyms[0][0], key.sensitive)
        else:
            inherited = [Synonym(name, default_text(key), DEFAULT_SOURCE)]
        described.append(_entry(key, values[name], overrides, GROUP_SOURCE, inherited))
    return described


def describe_client_metrics(overrides: Mapping[str, str]) -> list[Described]:
    """Every key of a client metrics subscription."""
    values = effective_client_metrics(overrides)
    return [
        _entry(key, values[name], overrides, CLIENT_METRICS_SOURCE, [])
        for name, key in CLIENT_METRICS_KEYS.items()
    ]


def _entry(
    key: ConfigKey,
    value: object,
    overrides: Mapping[str, str],
    source: int,
    inherited: list[Synonym],
) -> Described:
    text = None if key.sensitive else text_of(key, value)
    own = [Synonym(key.name, text, source)] if key.name in overrides else []
    synonyms = own + inherited
    came_from = synonyms[0].source if synonyms else DEFAULT_SOURCE
    type_id = TYPE_IDS[key.type]
    return Described(key.name, text, came_from, key.sensitive, False, type_id, synonyms, key)


def describe_broker(layers: BrokerLayers) -> list[Described]:
    """Every key of a broker, and whatever else was set for it."""
    current = layers.current
    return [
        _broker_entry(name, _broker_text(name, current), layers.synonyms)
        for name in _broker_names(current.texts)
    ]


def describe_cluster_default(layers: BrokerLayers) -> list[Described]:
    """What is set dynamically for every broker."""

    def synonyms(name: str, sensitive: bool) -> list[Synonym]:
        found = layers.synonyms(name, sensitive)
        return [each for each in found if each.source == DYNAMIC_DEFAULT_SOURCE]

    return [_broker_entry(name, text, synonyms) for name, text in layers.cluster.items()]


def _broker_names(texts: Mapping[str, str]) -> Iterator[str]:
    shown = {name for name, key in BROKER_KEYS.items() if not key.internal}
    yield from (name for name in texts if name not in shown)
    yield from (name for name in BROKER_KEYS if name in shown)


def _broker_text(name: str, current: NodeConfig) -> str | None:
    key = BROKER_KEYS.get(name)
    return current.texts[name] if key is None or key.internal else text_of(key, current[name])


def _broker_entry(name: str, text: str | None, synonyms_of: SynonymsOf) -> Described:
    key = None if name in PLUGIN_KEYS else dynamic_key_of(name)
    # What is not a key of the broker's own might be a plugin's password.
    sensitive = key is None or key.sensitive
    synonyms = synonyms_of(name, sensitive)
    return Described(
        name,
        None if sensitive else text,
        synonyms[0].source if synonyms else DEFAULT_SOURCE,
        sensitive,
        base_name(name) is not None or not is_updatable(name),
        TYPE_IDS[key.type] if key is not None else 0,
        synonyms,
        key,
    )

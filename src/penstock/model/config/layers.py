"""A broker's configuration in layers: its file, the cluster's defaults, its own settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.model.config.keys import BROKER_KEYS
from penstock.model.config.names import base_name, key_of, same_thing
from penstock.model.config.node import NodeConfig
from penstock.model.config.values import default_text

# Kafka's numbers for where a value comes from.
TOPIC_SOURCE = 1
DYNAMIC_BROKER_SOURCE = 2
DYNAMIC_DEFAULT_SOURCE = 3
STATIC_SOURCE = 4
DEFAULT_SOURCE = 5
LOGGER_SOURCE = 6
CLIENT_METRICS_SOURCE = 7
GROUP_SOURCE = 8


class Synonym(NamedTuple):
    """A place where a key's value is set, or could be."""

    name: str
    text: str | None
    source: int


class BrokerLayers(NamedTuple):
    """A broker's configuration, layer by layer."""

    node: NodeConfig
    broker: Mapping[str, str]
    """Dynamic, for this broker alone."""
    cluster: Mapping[str, str]
    """Dynamic, for every broker."""

    def __repr__(self) -> str:  # names only: some of the values are passwords
        return f"BrokerLayers(broker={sorted(self.broker)}, cluster={sorted(self.cluster)})"

    @property
    def current(self) -> NodeConfig:
        return self.node.overlaid(self.cluster, self.broker)

    def synonyms(self, name: str, sensitive: bool) -> list[Synonym]:
        """Where a broker key is set, nearest first, beginning with the key itself."""
        names = _names_of(name)
        layers = (
            (self.broker, DYNAMIC_BROKER_SOURCE),
            (self.cluster, DYNAMIC_DEFAULT_SOURCE),
            (self.node.texts, STATIC_SOURCE),
            (_DEFAULTS, DEFAULT_SOURCE),
        )
        found = [
            Synonym(each, None if sensitive else layer[each], source)
            for layer, source in layers
            for each in names
            if each in layer
        ]
        # Settings in a coarser unit count only below one in the unit that was asked for.
        first = next((at for at, each in enumerate(found) if each.name == name), len(found))
        return found[first:]


class _Defaults(dict[str, str]):
    """Texts of the broker keys' defaults, made when first asked for."""

    def __contains__(self, name: object) -> bool:
        key = BROKER_KEYS.get(str(name))
        return key is not None and default_text(key) is not None

    def __missing__(self, name: str) -> str:
        text = self[name] = default_text(BROKER_KEYS[name]) or ""
        return text


_DEFAULTS: Mapping[str, str] = _Defaults()


def _names_of(name: str) -> tuple[str, ...]:
    if base_name(name) is None:
        return same_thing(name)
    key = key_of(name)
    return (name, key.name if key is not None else base_name(name) or "")

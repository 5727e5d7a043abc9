"""Every configuration key that Penstock knows."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.model.config import facts, own
from penstock.model.config.status import status_of

REQUIRED = facts.REQUIRED


class ConfigKey:
    """One key: its name and type, its default, and the values that it takes.

    `scope` is broker, topic, group or client-metrics. `mode` says how a broker key changes while
    the node runs: read-only, per-broker or cluster-wide. `synonyms` are the broker keys, nearest
    first, that a topic or group key falls back to, each with the factor that turns its unit
    into this key's. `status` is honoured, planned or ignored.
    """

    __slots__ = ("default", "importance", "mode", "name", "scope", "synonyms", "type", "valid")

    def __init__(
        self,
        scope: str,
        name: str,
        type_: str,
        default: object,
        valid: str,
        importance: str,
        mode: str = "",
        synonyms: facts.Synonyms = (),
    ) -> None:
        self.scope = scope
        self.name = name
        self.type = type_
        self.default = default
        self.valid = valid
        self.importance = importance
        self.mode = mode
        self.synonyms = synonyms

    @property
    def sensitive(self) -> bool:
        """Whether the value is a secret, which nothing may show."""
        return self.type == "PASSWORD"

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def internal(self) -> bool:
        """Whether Kafka keeps the key out of its documentation."""
        return self.name in facts.INTERNAL

    @property
    def status(self) -> str:
        return status_of(self.scope, self.name)

    @property
    def description(self) -> str:
        from penstock.model.config.descriptions import description_of

        return description_of(self.scope, self.name)

    def __repr__(self) -> str:
        return f"ConfigKey({self.scope}, {self.name})"


def _broker_keys(rows: tuple[facts.BrokerRow, ...]) -> dict[str, ConfigKey]:
    return {row[0]: ConfigKey("broker", *row) for row in rows}


def _keys(scope: str, rows: tuple[facts.Row, ...]) -> dict[str, ConfigKey]:
    return {row[0]: ConfigKey(scope, *row[:5], "", row[5]) for row in rows}


BROKER_KEYS: Mapping[str, ConfigKey] = _broker_keys((*facts.BROKER, *own.BROKER))
"""Keys of server.properties."""
THROTTLE_KEYS: Mapping[str, ConfigKey] = _broker_keys(facts.THROTTLE)
"""Broker keys that can only be altered while the node runs, never written in a file."""
TOPIC_KEYS: Mapping[str, ConfigKey] = _keys("topic", (*facts.TOPIC, *own.TOPIC))
GROUP_KEYS: Mapping[str, ConfigKey] = _keys("group", (*facts.GROUP, *own.GROUP))
CLIENT_METRICS_KEYS: Mapping[str, ConfigKey] = _keys("client-metrics", facts.CLIENT_METRICS)

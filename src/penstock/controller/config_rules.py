"""What may be configured, and what a new topic's configuration comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.decision import Refusal
from penstock.metadata.configs import BROKER, CLIENT_METRICS, GROUP, TOPIC
from penstock.model.config.client_metrics import validate_client_metrics
from penstock.model.config.dynamic import dynamic_key_of
from penstock.model.config.groups import validate_group_config
from penstock.model.config.keys import CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS, ConfigKey
from penstock.model.config.topics import topic_defaults, validate_topic_config
from penstock.model.config.values import default_text, text_of
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.create_topics import CreatableTopicConfigs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.metadata.configs import ConfigsImage
    from penstock.model.config.node import NodeConfig

FROM_TOPIC, FROM_BROKER, FROM_ALL_BROKERS, FROM_FILE, FROM_DEFAULT = 1, 2, 3, 4, 5
"""Kafka's numbers for where a value comes from."""


UNCLEAN_ELECTION = "unclean.leader.election.enable"


class ConfigRules:
    """The rules of one node's release and settings."""

    __slots__ = ("_base", "_base_of", "_node")

    def __init__(self, node: NodeConfig) -> None:
        self._node = node
        self._base_of: object = None
        self._base: list[CreatableTopicConfigs] = []

    def refuse(
        self,
        kind: int,
        name: str,
        values: Mapping[str, str | None],
        old: Mapping[str, str] | None = None,
    ) -> Refusal | None:
        """Why these may not be all the settings of a resource, or None if they may."""
        if kind == TOPIC:
            problem = validate_topic_config(values, self._node, old)
        elif kind == GROUP:
            problem = validate_group_config(values, self._node)
        elif kind == CLIENT_METRICS:
            problem = validate_client_metrics(name, values)
        else:
            return None  # a broker's settings are judged by the broker, which knows its own file
        return None if problem is None else Refusal(ErrorCode[problem.error], str(problem))

    def is_list(self, kind: int, name: str) -> bool:
        """Whether values can be appended to the key and subtracted from it."""
        key = _key(kind, name)
        return key is not None and key.type == "LIST"

    def default(self, kind: int, name: str) -> str | None:
        """What a key that was never set counts as when a list is edited."""
        key = _key(kind, name)
        return None if key is None else default_text(key)

    def created_configs(
        self, overrides: Mapping[str, str | None], configs: ConfigsImage
    ) -> list[CreatableTopicConfigs]:
        """Every key of a new topic, by name, with where its value comes from.

        Topics without overrides share one list: most are such, and there are many keys.
        """
        base = self._inherited(configs)
        if not overrides:
            return base
        return [
            entry
            if entry.name not in overrides
            else CreatableTopicConfigs(
                name=entry.name,
                value=overrides[entry.name],
                config_source=FROM_TOPIC,
                is_sensitive=entry.is_sensitive,
            )
            for entry in base
        ]

    def unclean_default(self, configs: ConfigsImage) -> bool:
        """Whether topics that do not say may be led by a replica that lags."""
        return self._with_dynamic(configs).get_bool(UNCLEAN_ELECTION)

    def _with_dynamic(self, configs: ConfigsImage) -> NodeConfig:
        everyones = configs.of(BROKER, "")
        return self._node.overlaid(everyones, configs.of(BROKER, str(self._node.node_id)))

    def _inherited(self, configs: ConfigsImage) -> list[CreatableTopicConfigs]:
        if self._base_of is not configs:
            mine = configs.of(BROKER, str(self._node.node_id))
            everyones = configs.of(BROKER, "")
            values = topic_defaults(self._with_dynamic(configs))
            self._base = [
                CreatableTopicConfigs(
                    name=name,
                    value=None if key.sensitive else text_of(key, values[name]),
                    config_source=self._source(key, mine, everyones),
                    is_sensitive=key.sensitive,
                )
                for name, key in sorted(TOPIC_KEYS.items())
                if not key.internal
            ]
            self._base_of = configs
        return self._base

    def _source(self, key: ConfigKey, mine: Mapping[str, str], everyones: Mapping[str, str]) -> int:
        for synonym, _ in key.synonyms:
            if synonym in mine:
                return FROM_BROKER
            if synonym in everyones:
                return FROM_ALL_BROKERS
            if self._node.is_set(synonym):
                return FROM_FILE
        return FROM_DEFAULT


def _key(kind: int, name: str) -> ConfigKey | None:
    if kind == TOPIC:
        return TOPIC_KEYS.get(name)
    if kind == GROUP:
        return GROUP_KEYS.get(name)
    if kind == CLIENT_METRICS:
        return CLIENT_METRICS_KEYS.get(name)
    return dynamic_key_of(name)

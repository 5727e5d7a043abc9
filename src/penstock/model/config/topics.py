"""A topic's configuration: what counts in the end, and what may be set.

A topic key that is not set falls back to a broker key, or to several in different units: thus
`retention.ms` to log.retention.ms, .minutes and .hours. Broker keys may themselves be altered
while the node runs: pass `node.overlaid(cluster, broker)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from penstock.model.config import own
from penstock.model.config.keys import TOPIC_KEYS
from penstock.model.config.node import NodeConfig
from penstock.model.config.problems import InvalidConfig, bad_value, shortened
from penstock.model.config.values import parse

_FOLLOWS_RETENTION = -2
"""local.retention.*: as long as the topic itself."""

_NOTHING: Mapping[str, str] = {}

# Topic keys that several broker keys can set; NodeConfig knows which of them wins.
_RESOLVED = {
    "retention.ms": "retention_ms",
    "segment.ms": "roll_ms",
    "segment.jitter.ms": "roll_jitter_ms",
    "flush.ms": "flush_ms",
}


def topic_defaults(node: NodeConfig) -> Mapping[str, object]:
    """The configuration of a topic that sets nothing itself, by topic key."""
    return node.remember("topic defaults", _topic_defaults)


def _topic_defaults(node: NodeConfig) -> Mapping[str, object]:
    values: dict[str, object] = {}
    for name, key in TOPIC_KEYS.items():
        if name in _RESOLVED:
            values[name] = getattr(node, _RESOLVED[name])
        elif key.synonyms:
            values[name] = node[key.synonyms[0][0]]
        else:
            values[name] = key.default
    return values


def effective_topic_config(
    overrides: Mapping[str, str],
    node: NodeConfig,
    dynamic_broker: Mapping[str, str] | None = None,
    dynamic_default: Mapping[str, str] | None = None,
) -> Mapping[str, object]:
    """The typed value of every topic key. Do not change the result: topics share it.

    InvalidConfig if an override does not parse. Keys that are not known are left out: the
    metadata may have been written by a version that knows more.
    """
    layers = (dynamic_default or _NOTHING, dynamic_broker or _NOTHING)
    defaults = topic_defaults(node.overlaid(*layers))
    if not overrides:
        return defaults
    values = dict(defaults)
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is not None:
            values[name] = parse(key, text)
    return values


def validate_topic_config(
    overrides: Mapping[str, str | None],
    node: NodeConfig | None = None,
    existing: Mapping[str, str] | None = None,
) -> InvalidConfig | None:
    """What is wrong with all the settings of one topic taken together, or None.

    `existing` is what the topic had before, since some changes are only allowed in one direction.
    Without a node, what depends on its other settings is not checked.
    """
    try:
        given = _parsed(overrides)
        values = {**(topic_defaults(node) if node else _FACTORY), **given}
        _check_compaction_lags(values)
        _check_delays(values)
        if node is not None:
            _check_remote_storage(values, node, existing or {})
    except InvalidConfig as error:
        return error
    return None


def _parsed(overrides: Mapping[str, str | None]) -> dict[str, object]:
    missing = [name for name, text in overrides.items() if text is None]
    if missing:
        raise InvalidConfig(f"Topic configurations cannot be null: {', '.join(missing)}")
    unknown = next((name for name in overrides if name not in TOPIC_KEYS), None)
    if unknown is not None:
        name = shortened(unknown)
        raise InvalidConfig(f"Unknown topic config name: {name}{_hint(name)}", unknown)
    return {name: parse(TOPIC_KEYS[name], text or "") for name, text in overrides.items()}


def _hint(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, TOPIC_KEYS, 1, 0.75)
    return f" (did you mean {close[0]}?)" if close else ""


_FACTORY: Mapping[str, object] = {name: key.default for name, key in TOPIC_KEYS.items()}


def _check_compaction_lags(values: Mapping[str, object]) -> None:
    low = cast(int, values["min.compaction.lag.ms"])
    high = cast(int, values["max.compaction.lag.ms"])
    if low > high:
        raise InvalidConfig(
            f"min.compaction.lag.ms ({low}) must not exceed max.compaction.lag.ms ({high})",
            "min.compaction.lag.ms",
        )


def _check_delays(values: Mapping[str, object]) -> None:
    if values[own.DELAY_ENABLE] and "compact" in cast(tuple[str, ...], values["cleanup.policy"]):
        raise InvalidConfig(
            f"{own.DELAY_ENABLE}=true does not go with cleanup.policy=compact: compaction keeps "
            "the latest record of each key, and knows nothing of one that is yet to come",
            own.DELAY_ENABLE,
        )


def _check_remote_storage(
    values: Mapping[str, object], node: NodeConfig, existing: Mapping[str, str]
) -> None:
    if not values["remote.storage.enable"]:
        was_remote = existing.get("remote.storage.enable", "false").lower() == "true"
        if was_remote and not values["remote.log.delete.on.disable"]:
            raise InvalidConfig(
                "remote.storage.enable=false would lose track of the data in remote storage: "
                "set remote.log.delete.on.disable=true to delete it, or keep the topic readable "
                "with remote.storage.enable=true and remote.log.copy.disable=true",
                "remote.storage.enable",
            )
        return
    if not node.get_bool("remote.log.storage.system.enable"):
        raise InvalidConfig(
            "remote.storage.enable=true needs a node with remote.log.storage.system.enable=true",
            "remote.storage.enable",
        )
    if values["cleanup.policy"] not in ((), ("delete",)):
        raise InvalidConfig(
            "remote.storage.enable=true goes with cleanup.policy=delete or an empty one",
            "cleanup.policy",
        )
    for unit in ("bytes", "ms"):
        _check_local_retention(values, unit)


def _check_local_retention(values: Mapping[str, object], unit: str) -> None:
    name = f"local.retention.{unit}"
    local = cast(int, values[name])
    total = cast(int, values[f"retention.{unit}"])
    if local == _FOLLOWS_RETENTION:
        return
    if values["remote.log.copy.disable"] and local != total:
        raise bad_value(
            name,
            local,
            f"expected {total} as retention.{unit}, or -2, because "
            "remote.log.copy.disable=true keeps new data here",
        )
    if total >= 0 and not 0 <= local <= total:
        raise bad_value(name, local, f"expected at most {total} as retention.{unit}, or -2")

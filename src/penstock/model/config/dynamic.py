"""Broker keys that are altered while the node runs, for one broker or for all of them."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.model.config.keys import BROKER_KEYS, THROTTLE_KEYS, ConfigKey
from penstock.model.config.layers import BrokerLayers
from penstock.model.config.names import base_name, key_of
from penstock.model.config.problems import InvalidConfig, Problem, bad_value
from penstock.model.config.values import parse

# Secrets belong to one listener: altering them for all at once would lock everybody out together.
_LISTENER_ONLY = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)

# A thread pool may at most halve or double in one step.
_POOLS = (
    "background.threads",
    "num.io.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)


def dynamic_key_of(name: str) -> ConfigKey | None:
    """The broker key that a dynamic entry means; None for one that Penstock does not know."""
    return THROTTLE_KEYS.get(name) or key_of(name)


def is_updatable(name: str) -> bool:
    """Whether a key can be altered while the node runs."""
    key = dynamic_key_of(name)
    return key is not None and key.mode != "read-only"


def validate_broker_config(
    settings: Mapping[str, str], layers: BrokerLayers, broker: bool
) -> InvalidConfig | None:
    """What is wrong with all the dynamic settings of a broker, or of the cluster's default.

    `broker` tells which of the two layers the settings are to replace. Names that are not known
    pass, as they do in Kafka: a plugin may know them. The error is INVALID_REQUEST.
    """
    try:
        _check_modes(settings, broker)
        for name, text in settings.items():
            key = dynamic_key_of(name)
            if key is not None:
                parse(key, text)
        changed = layers._replace(broker=settings) if broker else layers._replace(cluster=settings)
        _check_together(layers, changed)
    except InvalidConfig as error:
        error.error = "INVALID_REQUEST"
        return error
    return None


def _check_modes(settings: Mapping[str, str], broker: bool) -> None:
    fixed = [n for n in settings if n in BROKER_KEYS and BROKER_KEYS[n].mode == "read-only"]
    if fixed:
        raise InvalidConfig(f"Cannot be altered while the node runs: {', '.join(fixed)}", fixed[0])
    bare = [name for name in settings if name in _LISTENER_ONLY]
    if bare:
        example = f"listener.name.LISTENER.{bare[0]}"
        reason = f"Can be altered only for one listener, as {example}: {', '.join(bare)}"
        raise InvalidConfig(reason, bare[0])
    if broker:
        return
    own = [name for name in settings if _is_per_broker(name)]
    if own:
        reason = f"Can be altered only for one broker, by its id: {', '.join(own)}"
        raise InvalidConfig(reason, own[0])


def _is_per_broker(name: str) -> bool:
    if name in BROKER_KEYS:
        return BROKER_KEYS[name].mode == "per-broker"
    base = base_name(name)
    if base is None:
        return False
    # What can be altered for the whole cluster can be so below a listener as well.
    return base not in ("max.connections", "max.connection.creation.rate", "num.network.threads")


def _check_together(before: BrokerLayers, after: BrokerLayers) -> None:
    from penstock.model.config.node_checks import check_local_retention, check_node

    old, new = before.current, after.current
    problems: list[Problem] = check_node(new) or [*check_local_retention(new)]
    if problems:
        raise InvalidConfig("; ".join(problem.reason for problem in problems), problems[0].key)
    for name in _POOLS:
        now, then = old.get_int(name), new.get_int(name)
        if not now // 2 <= then <= now * 2:
            expected = f"expected between half and double of the current {now}"
            raise bad_value(name, then, expected)

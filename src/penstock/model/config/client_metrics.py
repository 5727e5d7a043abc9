"""A client metrics subscription: which metrics, how often, from which clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from penstock.model.config.keys import CLIENT_METRICS_KEYS
from penstock.model.config.problems import InvalidConfig, shortened
from penstock.model.config.values import parse

_INTERVAL_MS_MIN = 100
_INTERVAL_MS_MAX = 3_600_000
_MATCHABLE = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
_REQUEST = "INVALID_REQUEST"


def effective_client_metrics(overrides: Mapping[str, str]) -> dict[str, object]:
    """The typed value of every key of a subscription."""
    values = {name: key.default for name, key in CLIENT_METRICS_KEYS.items()}
    for name, text in overrides.items():
        if name in CLIENT_METRICS_KEYS:
            values[name] = parse(CLIENT_METRICS_KEYS[name], text)
    return values


def validate_client_metrics(
    subscription: str, settings: Mapping[str, str | None]
) -> InvalidConfig | None:
    """What is wrong with all the settings of a subscription taken together, or None."""
    try:
        _check(subscription, settings)
    except InvalidConfig as error:
        return error
    return None


def _check(subscription: str, settings: Mapping[str, str | None]) -> None:
    missing = [name for name, text in settings.items() if text is None]
    if missing:
        raise InvalidConfig(f"Client metrics configurations cannot be null: {', '.join(missing)}")
    if not subscription:
        raise InvalidConfig("A client metrics subscription needs a name", "", _REQUEST)
    unknown = next((name for name in settings if name not in CLIENT_METRICS_KEYS), None)
    if unknown is not None:
        raise InvalidConfig(f"Unknown client metrics configuration: {unknown}", unknown, _REQUEST)
    values = {n: parse(CLIENT_METRICS_KEYS[n], text or "") for n, text in settings.items()}
    interval = cast(int, values.get("interval.ms", _INTERVAL_MS_MAX))
    if not _INTERVAL_MS_MIN <= interval <= _INTERVAL_MS_MAX:
        raise InvalidConfig(
            f"Invalid value {interval} for interval.ms: expected {_INTERVAL_MS_MIN} to "
            f"{_INTERVAL_MS_MAX} (one hour)",
            "interval.ms",
            _REQUEST,
        )
    for entry in cast("tuple[str, ...]", values.get("match", ())):
        _check_match(entry)


def _check_match(entry: str) -> None:
    name, _, pattern = entry.partition("=")
    quoted = shortened(entry)
    if name.strip() not in _MATCHABLE or not pattern.strip() or "=" in pattern:
        expected = f"expected PARAMETER=PATTERN, where the parameter is {', '.join(_MATCHABLE)}"
        raise InvalidConfig(f"Invalid client match {quoted}: {expected}", "match")
    try:
        re.compile(pattern.strip())
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidConfig(f"Invalid client match {quoted}: {error}", "match") from error

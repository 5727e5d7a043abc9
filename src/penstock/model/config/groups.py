"""A group's configuration: what counts in the end, and what may be set.

Most group keys fall back to a broker key, and the broker's own keys bound what a group may ask for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from penstock.model.config.keys import GROUP_KEYS
from penstock.model.config.node import NodeConfig
from penstock.model.config.problems import InvalidConfig, shortened
from penstock.model.config.values import parse


class _Bound(NamedTuple):
    """The broker keys between which a group key must lie."""

    low: str
    high: str


def _between(kind: str, what: str) -> _Bound:
    return _Bound(f"group.{kind}.min.{what}", f"group.{kind}.max.{what}")


_ALIVE = ("session.timeout.ms", "heartbeat.interval.ms")
_BOUNDS = {
    f"{kind}.{what}": _between(kind, what)
    for kind in ("consumer", "share", "streams")
    for what in (*_ALIVE, "assignment.interval.ms")
}
_BOUNDS |= {
    f"share.{what}": _between("share", what)
    for what in ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks")
}
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_TOPIC_NAME = re.compile(r"(?!\.{1,2}$)(?!__)[a-zA-Z0-9._-]{1,249}")
_BOUNDS["streams.num.standby.replicas"] = _Bound("", "group.streams.max.standby.replicas")


def group_defaults(node: NodeConfig) -> Mapping[str, object]:
    """The configuration of a group that sets nothing itself, by group key."""
    return {
        name: node[key.synonyms[0][0]] if key.synonyms else key.default
        for name, key in GROUP_KEYS.items()
    }


def effective_group_config(overrides: Mapping[str, str], node: NodeConfig) -> dict[str, object]:
    """The typed value of every group key, drawn into the bounds that the broker sets today."""
    values = dict(group_defaults(node))
    for name, text in overrides.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            continue
        value = parse(key, text)
        bound = _BOUNDS.get(name)
        if bound is not None:
            value = min(cast(int, value), node.get_int(bound.high))
            value = max(value, node.get_int(bound.low)) if bound.low else value
        values[name] = value
    return values


def validate_group_config(
    overrides: Mapping[str, str | None], node: NodeConfig
) -> InvalidConfig | None:
    """What is wrong with all the settings of one group taken together, or None."""
    try:
        given = _parsed(overrides)
        values = {**group_defaults(node), **given}
        for name, bound in _BOUNDS.items():
            _check_bound(name, cast(int, values[name]), bound, node)
        for kind in ("consumer", "share", "streams"):
            _check_heartbeat(kind, values)
        _check_dead_letters(cast(str, values[_DEAD_LETTERS]))
    except InvalidConfig as error:
        return error
    return None


def _parsed(overrides: Mapping[str, str | None]) -> dict[str, object]:
    missing = [name for name, text in overrides.items() if text is None]
    if missing:
        raise InvalidConfig(f"Group configurations cannot be null: {', '.join(missing)}")
    unknown = next((name for name in overrides if name not in GROUP_KEYS), None)
    if unknown is not None:
        raise InvalidConfig(f"Unknown group config name: {unknown}", unknown)
    return {name: parse(GROUP_KEYS[name], text or "") for name, text in overrides.items()}


def bound_problems(node: NodeConfig) -> Iterator[tuple[str, str]]:
    """Broker keys that groups fall back to and that break the broker's own bounds, and how."""
    for name, bound in _BOUNDS.items():
        key = GROUP_KEYS[name].synonyms[0][0]
        if bound.low and node.get_int(bound.low) > node.get_int(bound.high):
            yield bound.low, f"{bound.low} must not exceed {bound.high}."
        elif wrong := _out_of_bounds(key, node.get_int(key), bound, node):
            yield key, f"{wrong}."
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = (f"group.{kind}.{what}" for what in _ALIVE)
        if node.get_int(session) <= node.get_int(heartbeat):
            yield session, f"{session} must be greater than {heartbeat}."


def _check_bound(name: str, value: int, bound: _Bound, node: NodeConfig) -> None:
    wrong = _out_of_bounds(name, value, bound, node)
    if wrong:
        raise InvalidConfig(wrong, name)


def _out_of_bounds(name: str, value: int, bound: _Bound, node: NodeConfig) -> str:
    if bound.low and value < node.get_int(bound.low):
        return f"{name} ({value}) must be at least {bound.low} ({node.get_int(bound.low)})"
    if value > node.get_int(bound.high):
        return f"{name} ({value}) must be at most {bound.high} ({node.get_int(bound.high)})"
    return ""


def _check_heartbeat(kind: str, values: Mapping[str, object]) -> None:
    session, heartbeat = (f"{kind}.{what}" for what in _ALIVE)
    longer, shorter = cast(int, values[session]), cast(int, values[heartbeat])
    if longer <= shorter:
        reason = f"{session} ({longer}) must be greater than {heartbeat} ({shorter})"
        raise InvalidConfig(reason, session)


def _check_dead_letters(topic: str) -> None:
    """Whether there is such a topic may change; whether there can be one does not."""
    if topic and not _TOPIC_NAME.fullmatch(topic):
        raise InvalidConfig(
            f"{_DEAD_LETTERS} ({shortened(topic)}) must be a legal name for a topic, and not begin "
            "with __",
            _DEAD_LETTERS,
        )

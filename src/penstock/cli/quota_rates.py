"""Rates as people write and read them: 10MB/s, 512KiB/s, 50%, 5/s. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.cli.failure import USAGE, Failure

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_SHOWN = ("TB", "TiB", "GB", "GiB", "MB", "MiB", "kB", "KiB", "B")
_RATE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([a-zA-Z]*?)(%?)\s*(/s|ps)?")


class Key(NamedTuple):
    """A quota: Kafka's name for it, the option that sets it, and what it counts."""

    name: str
    option: str
    kind: str


BYTES, PERCENT, COUNT = "bytes", "percent", "count"

KEYS = (
    Key("producer_byte_rate", "produce", BYTES),
    Key("consumer_byte_rate", "fetch", BYTES),
    Key("request_percentage", "request", PERCENT),
    Key("controller_mutation_rate", "mutations", COUNT),
    Key("connection_creation_rate", "connections", COUNT),
)
BY_NAME = {key.name: key for key in KEYS}
BY_OPTION = {key.option: key for key in KEYS}


def rate_of(key: Key, text: str) -> float:
    """The number that Kafka keeps for a rate; `Failure` if the text is none of its kind."""
    match = _RATE.fullmatch(text.strip())
    if match is not None:
        number, unit, percent, per_second = match.groups()
        fits = {
            BYTES: not percent and unit.lower() in _UNITS,
            PERCENT: not unit and not per_second,
            COUNT: not unit and not percent,
        }[key.kind]
        if fits and float(number) > 0:
            return float(number) * _UNITS.get(unit.lower(), 1)
    example = {BYTES: "10MB/s, 512KiB/s or 1048576", PERCENT: "50%", COUNT: "5/s"}[key.kind]
    raise Failure(f"--{key.option} {text!r} is no rate", f"write one such as {example}", USAGE)


def rate_text(name: str, value: float) -> str:
    """A rate for people, without losing any of it."""
    key = BY_NAME.get(name)
    if key is None:
        return f"{value:.15g}"
    if key.kind == PERCENT:
        return f"{value:.15g}%"
    if key.kind == BYTES:
        # The shortest that says the same.
        texts = [(f"{value / _UNITS[unit.lower()]:.15g}", unit) for unit in _SHOWN]
        number, unit = min(texts, key=lambda text: len(text[0]))
        return f"{number} {unit}/s"
    return f"{value:.15g}/s"

"""How a text becomes the value of a key, and a value a text."""

from __future__ import annotations

import math
import re

from penstock.model.config.keys import ConfigKey
from penstock.model.config.problems import bad_value
from penstock.model.config.rules import rule_of

HIDDEN = "[hidden]"
"""Stands for a secret wherever one would be shown."""

_INTEGER = r"([-+]?)0*([0-9]{1,19})"
_DOUBLE = r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?[fFdD]?"
_HEXADECIMAL = r"[-+]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][-+]?[0-9]+[fFdD]?"
_NOT_FINITE = r"[-+]?(NaN|Infinity)"
_INTEGER_BITS = {"SHORT": 16, "INT": 32, "LONG": 64}


def parse(key: ConfigKey, text: str) -> object:
    """The typed value of a text, or InvalidConfig that says what the key expects.

    BOOLEAN gives bool; INT, SHORT and LONG give int; DOUBLE float; LIST a tuple of texts; STRING,
    CLASS and PASSWORD give str. Blanks around the value do not count.
    """
    value = _typed(key, text)
    check(key, value)
    return value


def check(key: ConfigKey, value: object) -> None:
    """InvalidConfig unless the typed value is one that the key takes."""
    wrong = rule_of(key.valid)(value)
    if wrong:
        shown = HIDDEN if key.sensitive else text_of(key, value)
        raise bad_value(key.name, shown, wrong)


def _typed(key: ConfigKey, text: str) -> object:
    trimmed = text.strip()
    kind = key.type
    bits = _INTEGER_BITS.get(kind)
    if bits is not None:
        # int() has an error of its own for thousands of digits: keep them away from it.
        match = re.fullmatch(_INTEGER, trimmed)
        if match is not None:
            number = int(match[1] + match[2])
            if -(1 << bits - 1) <= number < 1 << bits - 1:
                return number
        raise bad_value(key.name, text, f"expected a whole number of {bits} bits")
    if kind == "BOOLEAN":
        word = trimmed.lower()
        if word in ("true", "false"):
            return word == "true"
        raise bad_value(key.name, text, "expected true or false")
    if kind == "LIST":
        parts = [part.strip() for part in trimmed.split(",")] if trimmed else []
        # Kafka drops repetitions instead of refusing them.
        return tuple(dict.fromkeys(parts) if key.valid.startswith("set") else parts)
    if kind == "DOUBLE":
        return _double(key, text, trimmed)
    return trimmed


def _double(key: ConfigKey, text: str, trimmed: str) -> float:
    if re.fullmatch(_DOUBLE, trimmed):
        return float(trimmed.rstrip("fFdD"))
    if re.fullmatch(_NOT_FINITE, trimmed):
        return float(trimmed)
    if re.fullmatch(_HEXADECIMAL, trimmed):
        return _hexadecimal(trimmed)
    raise bad_value(key.name, text, "expected a number")


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text.rstrip("fFdD") if "p" in text.lower() else text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def text_of(key: ConfigKey, value: object) -> str | None:
    """The text that Kafka's tools print for a typed value; None for one that is unset."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return java_double(value)
    return HIDDEN if key.sensitive else str(value)


def default_text(key: ConfigKey) -> str | None:
    """The default as Kafka's tools print it; None where there is none."""
    return None if key.required else text_of(key, key.default)


def java_double(value: float) -> str:
    """A double as Java prints it: with an exponent below 0.001 and from ten million on."""
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal  # rarely needed, and not free to import

    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits)).rstrip("0")
    power = len(digits) + exponent - 1
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:] or '0'}E{power}"

"""Which values a key takes, in a notation that is short to store and plain to read.

    1..            at least 1                 1..9      from 1 to 9, both included
    -1|1..9        -1, or from 1 to 9         a|b       exactly one of these words
    ~A|B           one of these in any case   set       a list without gaps; repetitions go
    set+           ... and not empty          set(a|b)  ... of these words only
    nonempty, nonnull, voters, endpoints, replicas, offset-reset: named rules, see below

A trailing `?` on a set lets the key be unset. An empty text takes anything of the key's type.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from penstock.model.config.endpoints import endpoint_of, voter_of
from penstock.model.config.problems import shortened

Check = Callable[[object], str]
"""Says what was expected instead; an empty text means that the value is fine."""

_cache: dict[str, Check] = {}


def rule_of(valid: str) -> Check:
    """The check that a text in the notation above stands for."""
    check = _cache.get(valid)
    if check is None:
        check = _cache[valid] = _compile(valid)
    return check


def words_of(valid: str) -> str:
    """The notation in words, for people."""
    if not valid:
        return ""
    named = _NAMED.get(valid)
    if named is not None:
        return named[0]
    if valid.startswith("set"):
        return _words_of_set(valid)
    if ".." in valid:
        return " or ".join(_words_of_range(part) for part in valid.split("|"))
    words = valid.removeprefix("~").replace("|", ", ")
    return f"one of {words}" + (" (in any case)" if valid.startswith("~") else "")


def _compile(valid: str) -> Check:
    if not valid:
        return lambda _value: ""
    if valid in _NAMED:
        return _NAMED[valid][1]
    if valid.startswith("set"):
        return _set_check(valid)
    if ".." in valid:
        return _range_check(valid)
    return _choice_check(valid)


def _range_check(valid: str) -> Check:
    parts = [_bounds(part) for part in valid.split("|")]
    expected = f"expected {words_of(valid)}"

    def check(value: object) -> str:
        if not isinstance(value, int | float):
            return expected
        # NaN fails no comparison in Kafka, so it passes any range; here it passes none.
        fits = any(
            (low is None or value >= low) and (high is None or value <= high) for low, high in parts
        )
        return "" if fits else expected

    return check


def _bounds(part: str) -> tuple[float | None, float | None]:
    if ".." not in part:
        return float(part), float(part)
    low, _, high = part.partition("..")
    return (float(low) if low else None), (float(high) if high else None)


def _words_of_range(part: str) -> str:
    if ".." not in part:
        return part
    low, _, high = part.partition("..")
    if not high:
        return f"at least {low}"
    return f"{low} to {high}"


def _choice_check(valid: str) -> Check:
    any_case = valid.startswith("~")
    words = valid.removeprefix("~").split("|")
    expected = f"expected {words_of(valid)}"

    def check(value: object) -> str:
        word = value.upper() if any_case and isinstance(value, str) else value
        return "" if word in words else expected

    return check


_SET = r"set(\+?)(\??)(?:\((.*)\))?"


def _set_check(valid: str) -> Check:
    match = re.fullmatch(_SET, valid)
    assert match is not None, valid
    filled, unset_fine, inner = match.groups()
    words = inner.split("|") if inner else None

    def check(value: object) -> str:
        if value is None:
            return "" if unset_fine else "expected a value"
        assert isinstance(value, tuple)
        if filled and not value:
            return "expected at least one value"
        if "" in value:
            return "expected no empty value between commas"
        if words and not set(value) <= set(words):
            return f"expected only {', '.join(words)}"
        return ""

    return check


def _words_of_set(valid: str) -> str:
    match = re.fullmatch(_SET, valid)
    assert match is not None, valid
    filled, _, inner = match.groups()
    words = f"any of {inner.replace('|', ', ')}" if inner else "values without repetition"
    return f"{words}, at least one" if filled else words


def _nonempty(value: object) -> str:
    return "expected a text that is not empty" if value == "" else ""


def _nonnull(value: object) -> str:
    return "expected a value" if value is None else ""


def _voters(value: object) -> str:
    assert isinstance(value, tuple)
    wrong = [entry for entry in value if voter_of(entry) is None]
    return f"expected ID@HOST:PORT, not {shortened(wrong[0])!r}" if wrong else ""


def _endpoints(value: object) -> str:
    assert isinstance(value, tuple)
    wrong = [entry for entry in value if endpoint_of(entry) is None]
    return f"expected HOST:PORT, not {shortened(wrong[0])!r}" if wrong else ""


_REPLICA = r"([0-9]+:[0-9]+)?"


def _replicas(value: object) -> str:
    assert isinstance(value, tuple)
    if "".join(value) == "*" or all(re.fullmatch(_REPLICA, entry.strip()) for entry in value):
        return ""
    return "expected * or PARTITION:BROKER pairs with commas between them"


# ISO-8601 durations of days and time, as java.time.Duration reads them.
_DURATION = (
    r"(?ai)([-+]?)P(?:([-+]?\d{1,12})D)?(T(?:([-+]?\d{1,12})H)?(?:([-+]?\d{1,12})M)?"
    r"(?:([-+]?\d{1,12})(?:[.,](\d{0,9}))?S)?)?"
)


def duration_ms(text: str) -> int | None:
    """Milliseconds of an ISO-8601 duration such as P7D or PT1H30M; None if it is none."""
    match = re.fullmatch(_DURATION, text)
    if match is None:
        return None
    sign, days, time, hours, minutes, seconds, fraction = match.groups()
    if time in ("T", "t") or (days is None and time is None):
        return None
    total = int(days or 0) * 86_400_000 + int(hours or 0) * 3_600_000
    total += int(minutes or 0) * 60_000 + int(seconds or 0) * 1000
    part = int((fraction or "0").ljust(3, "0")[:3])
    total += -part if (seconds or "").startswith("-") else part
    return -total if sign == "-" else total


def _offset_reset(value: object) -> str:
    expected = "expected latest, earliest or by_duration: and an ISO-8601 duration, as PT1H"
    if value in ("latest", "earliest"):
        return ""
    if isinstance(value, str) and value.startswith("by_duration:"):
        span = duration_ms(value[len("by_duration:") :])
        return "" if span is not None and span >= 0 else expected
    return expected


_NAMED: dict[str, tuple[str, Check]] = {
    "nonempty": ("not empty", _nonempty),
    "nonnull": ("must be set", _nonnull),
    "voters": ("ID@HOST:PORT, ...", _voters),
    "endpoints": ("HOST:PORT, ...", _endpoints),
    "replicas": ("* or PARTITION:BROKER, ...", _replicas),
    "offset-reset": ("latest, earliest or by_duration:DURATION", _offset_reset),
}

"""From a certificate's name to a short one: ssl.principal.mapping.rules.

A rule is DEFAULT, which keeps the name, or RULE:pattern/replacement/ with L or U behind it for
lower or upper case. The first whose pattern fits the whole name decides. Patterns are matched in
time that grows with the name and no faster, whatever they are: who connects chooses the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_DEFAULT = "DEFAULT"
_PART = r"(?:\\.|[^\\/])*"
_RULE = rf"RULE:({_PART})/({_PART})/([LU]?)"
_BETWEEN = r"\s*(?:,\s*|$)"

_CASES: dict[str, Callable[[str], str]] = {"": str, "L": str.lower, "U": str.upper}

Rule = Callable[[str], str | None]
"""From a distinguished name to a shorter one; None where the rule does not apply."""


class PrincipalRules:
    """The rules of a listener. ValueError, with what is wrong, if the text holds none."""

    def __init__(self, text: str) -> None:
        self._rules = _parse(text.strip())
        if not self._rules:
            raise ValueError("no rule lets nobody in: write DEFAULT for the name as it is")

    def name_of(self, distinguished_name: str) -> str | None:
        """The name that counts; None if no rule applies, and nobody gets in under that name."""
        for rule in self._rules:
            name = rule(distinguished_name)
            if name is not None:
                return name
        return None


def _parse(text: str) -> list[Rule]:
    rules: list[Rule] = []
    at = 0
    while at < len(text):
        rule, at = _parse_one(text, at)
        rules.append(rule)
        gap = re.compile(_BETWEEN).match(text, at)
        if gap is None:
            raise ValueError(f"{text[at:]!r} stands where a comma or the end was expected")
        at = gap.end()
    return rules


def _parse_one(text: str, at: int) -> tuple[Rule, int]:
    if text.startswith(_DEFAULT, at):
        return str, at + len(_DEFAULT)
    found = re.compile(_RULE).match(text, at)
    if found is None:
        raise ValueError(f"{text[at:]!r} is neither DEFAULT nor RULE:pattern/replacement/[LU]")
    return _rule(*found.groups()), found.end()


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    expression = _compile(pattern)
    parts = _replacement(replacement, expression.groups)
    change = _CASES[case]

    def fill_in(match: Any) -> str:
        return "".join(part if isinstance(part, str) else match.group(part) or "" for part in parts)

    def apply(name: str) -> str | None:
        if expression.fullmatch(name) is None:
            return None
        # Once it fits as a whole, Kafka replaces every place that fits.
        return change(expression.sub(fill_in, name))

    return apply


def _compile(pattern: str) -> Any:
    import re2  # type: ignore[import-untyped]  # only where somebody wrote a rule

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as problem:
        told = problem.args[0]
        reason = told.decode() if isinstance(told, bytes) else told
        raise ValueError(f"the pattern {pattern!r} cannot be used: {reason}") from problem


def _replacement(text: str, groups: int) -> list[str | int]:
    """Literal texts, and the numbers of groups: $1 is the first; a backslash takes the meaning."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        if text[at] == "\\":
            parts.append(text[at + 1 : at + 2])
            at += 2
        elif text[at] == "$":
            part, at = _reference(text, at, groups)
            parts.append(part)
        else:
            parts.append(text[at])
            at += 1
    return parts


def _reference(text: str, at: int, groups: int) -> tuple[str | int, int]:
    digits = re.compile("[0-9]+").match(text, at + 1)
    if digits is None:
        raise ValueError(f"a $ without a number in {text!r}: write \\$ for the sign itself")
    number = int(digits[0][0])
    if number > groups:
        if not groups:
            raise ValueError(f"{text!r} takes ${number} of a pattern without groups")
        return "$", at + 1  # a group that there is not stands for itself
    end = at + 2
    # As many digits as still name a group: $12 is the first group and a 2 if there are no twelve.
    while end < digits.end() and number * 10 + int(text[end]) <= groups:
        number = number * 10 + int(text[end])
        end += 1
    return number, end

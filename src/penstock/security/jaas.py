"""Kafka's JAAS strings: a login module, a flag, options, a semicolon.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="b";

They are full of secrets, and a string that cannot be read may be nothing but one: problems name a
place and what was expected there, never what was found.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.security.mechanisms import OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

_PACKAGE = "org.apache.kafka.common.security."
PLAIN_MODULE = f"{_PACKAGE}plain.PlainLoginModule"
SCRAM_MODULE = f"{_PACKAGE}scram.ScramLoginModule"
OAUTH_MODULE = f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule"

MODULE_OF = {
    PLAIN: PLAIN_MODULE,
    SCRAM_SHA_256: SCRAM_MODULE,
    SCRAM_SHA_512: SCRAM_MODULE,
    OAUTHBEARER: OAUTH_MODULE,
}
"""The login module of each mechanism."""

_FLAGS = ("required", "requisite", "sufficient", "optional")

_TOKEN = re.compile(
    r"""
    (?P<space> \s+ | //[^\n]* | /\*.*?\*/ )
  | (?P<word> [A-Za-z0-9_.$\-]+ )
  | (?P<mark> [=;] )
  | "(?P<double> (?:[^"\\\n]|\\.)* )"
  | '(?P<single> (?:[^'\\\n]|\\.)* )'
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasProblem(ValueError):
    """A string that is no JAAS configuration, said without repeating any of it."""


class LoginModule(NamedTuple):
    """One entry."""

    name: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name})"


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse_jaas(text: str) -> list[LoginModule]:
    """All entries of a string; JaasProblem if it has none, or anything that is not one."""
    tokens = _Tokens(text)
    found = []
    while not tokens.over:
        found.append(_entry(tokens))
    if not found:
        raise JaasProblem("it is empty: name a login module, a flag and options, and end with ';'")
    return found


def login_module(text: str, mechanism: str) -> LoginModule | None:
    """The entry for a mechanism; None if the string has only others'."""
    wanted = [each for each in parse_jaas(text) if each.name == MODULE_OF[mechanism]]
    if len(wanted) > 1:
        raise JaasProblem(f"{MODULE_OF[mechanism]} stands there more than once")
    return wanted[0] if wanted else None


def _entry(tokens: _Tokens) -> LoginModule:
    name = tokens.take("the name of a login module", "word", "quoted")
    if name.text not in MODULE_OF.values():
        known = ", ".join(sorted(set(MODULE_OF.values())))
        raise JaasProblem(f"character {name.at + 1}: expected one of {known}")
    flag = tokens.take("a flag", "word", "quoted")
    if flag.text.lower() not in _FLAGS:
        raise JaasProblem(f"character {flag.at + 1}: expected a flag, one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    while True:
        key = tokens.take("an option or ';'", "word", "quoted", ";")
        if key.kind == ";":
            return LoginModule(name.text, options)
        tokens.take("'=' after an option's name", "=")
        value = tokens.take("an option's value, in quotes", "word", "quoted")
        if key.text in options:
            raise JaasProblem(f"character {key.at + 1}: an option that was given before")
        options[key.text] = value.text


class _Tokens:
    """The string, piece by piece."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._skip()

    @property
    def over(self) -> bool:
        return self._at >= len(self._text)

    def take(self, expected: str, *kinds: str) -> _Token:
        """The next piece, of one of the kinds."""
        at = self._at
        token = None if self.over else self._match()
        if token is None or token.kind not in kinds:
            raise JaasProblem(f"character {at + 1}: expected {expected}")
        self._skip()
        return token

    def _match(self) -> _Token | None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            return None
        at, self._at = self._at, match.end()
        kind = match.lastgroup or ""
        found = match[kind]
        if kind == "mark":
            return _Token(found, found, at)
        if kind == "word":
            return _Token("word", found, at)
        return _Token("quoted", _ESCAPED.sub(_unescaped, found), at)

    def _skip(self) -> None:
        while (match := _TOKEN.match(self._text, self._at)) and match.lastgroup == "space":
            self._at = match.end()


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPES.get(code, code)

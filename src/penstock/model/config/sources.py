"""Configuration files: Java's .properties, and the same keys as TOML.

Both give entries of (key, text, line). Java keeps the last of two entries with the same key, and so
does Penstock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from penstock.model.config.problems import ConfigProblems, Problem


class Entry(NamedTuple):
    """One key as a file has it. Line 0: unknown."""

    key: str
    text: str
    line: int = 0


def read_entries(path: str) -> list[Entry]:
    """The entries of a file: TOML if its name ends so, and .properties otherwise."""
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".toml"):
        return toml_entries(_utf8(data, path), path)
    return list(properties_entries(_decoded(data)))


def _utf8(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigProblems([Problem("", "TOML is text in UTF-8.", line)], path) from None


def _decoded(data: bytes) -> str:
    # Java reads .properties as Latin-1, editors write UTF-8. Plain ASCII is the same in both, and
    # Latin-1 text with an umlaut is hardly ever valid UTF-8.
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


# Only these end a line in Java; str.splitlines would also split at form feeds and others.
_LINE_END = r"\r\n|\r|\n"
_BLANKS = " \t\f"
_KEY = r"(?s)((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*"
_ESCAPE = r"(?s)\\(u([0-9a-fA-F]{4})|u|.)"
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def properties_entries(text: str) -> Iterator[Entry]:
    """Entries of a .properties text, with Java's comments, continuation lines and escapes."""
    for number, line in _logical_lines(text):
        match = re.match(_KEY, line)
        assert match is not None  # the pattern matches the empty text too
        try:
            yield Entry(_unescaped(match[1]), _unescaped(line[match.end() :]), number)
        except ValueError as error:
            raise ConfigProblems([Problem(match[1], str(error), number)]) from error


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined where a backslash continues them, with the number of their first line."""
    joined = ""
    start = 0
    natural = re.split(_LINE_END, text)
    for number, raw in enumerate(natural, 1):
        line = raw.lstrip(_BLANKS)
        if not joined:
            if line[:1] in ("#", "!"):
                continue
            start = number
        joined += line
        if _is_continued(line):
            joined = joined[:-1]
            if number < len(natural):
                continue
        elif not joined:
            continue
        yield start, joined
        joined = ""


def _is_continued(line: str) -> bool:
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return re.sub(_ESCAPE, _replacement, text)


def _replacement(match: re.Match[str]) -> str:
    if match[2]:
        return chr(int(match[2], 16))
    if match[1] == "u":
        raise ValueError("expected four hexadecimal digits after \\u")
    return _ESCAPED.get(match[1], match[1])


def toml_entries(text: str, source: str = "configuration") -> list[Entry]:
    """Entries of a TOML text: dotted keys or nested tables, lists as arrays."""
    import tomllib

    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        hint = "A key that is also the start of another must be quoted whole"
        reason = f'{error}. {hint}: "log.dir" = ...' if "overwrite" in str(error) else str(error)
        raise ConfigProblems([Problem("", reason)], source) from error
    except (RecursionError, ValueError) as error:  # what its parser does not put into words
        reason = "a number has thousands of digits, or tables and arrays are nested too deeply."
        raise ConfigProblems([Problem("", reason)], source) from error
    lines = _toml_lines(text)
    return [Entry(key, value, lines.get(key, 0)) for key, value in _leaves("", tree, source)]


def _leaves(
    prefix: str, tree: dict[str, object], source: str, depth: int = 0
) -> Iterator[tuple[str, str]]:
    if depth > _TOML_DEPTH_MAX:
        reason = f"{prefix[:50]}... has more than {_TOML_DEPTH_MAX} parts. No key has so many."
        raise ConfigProblems([Problem("", reason)], source)
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _leaves(f"{key}.", value, source, depth + 1)
        elif isinstance(value, list):
            yield key, ",".join(_scalar(key, item, source) for item in value)
        else:
            yield key, _scalar(key, value, source)


def _scalar(key: str, value: object, source: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > _TOML_INT_BITS_MAX:
        raise ConfigProblems([Problem(key, f"{key}: no number is so large.")], source)
    if isinstance(value, str | int | float):
        return str(value)
    reason = f"{key}: expected a text, a number, true, false or an array of them, not {value!r}."
    raise ConfigProblems([Problem(key, reason)], source)


_TOML_DEPTH_MAX = 32
_TOML_INT_BITS_MAX = 1024
_TOML_TABLE = r"\s*\[([^\[\]]+)\]"
# No two parts can begin with the same character, so that no line can be divided in two ways.
_TOML_KEY = r"""((?:"[^"]*"|'[^']*'|[A-Za-z0-9_.\-]|[ \t])+)="""


def _toml_lines(text: str) -> dict[str, int]:
    """Where each key probably stands: tomllib does not tell."""
    lines: dict[str, int] = {}
    prefix = ""
    for number, line in enumerate(text.splitlines(), 1):
        if table := re.match(_TOML_TABLE, line):
            prefix = _bare(table[1]) + "."
        elif key := re.match(_TOML_KEY, line):
            lines.setdefault(prefix + _bare(key[1]), number)
    return lines


def _bare(key: str) -> str:
    return re.sub(r"[\"' \t]", "", key)

"""How texts in the file are written: durations, sizes, names, functions in Python files.

Each check gives the text as the rest of the pipeline wants it, or raises `Misshapen`, which tells
what was expected without repeating what was found (that may come from the environment, or be a
secret), names of files apart.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Mapping

from penstock.pipeline.spec.entries import Shape

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
BROKER = re.compile(r"([A-Za-z][A-Za-z0-9_]*://)?(\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):[0-9]{1,5}")

_UNITS = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_SHORT_UNITS = {
    "ms": "millisecond",
    "s": "second",
    "m": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
}
_SPAN = re.compile(r"([0-9]{1,9})\s*([A-Za-z]+)")
_SPANS = re.compile(rf"{_SPAN.pattern}(\s+{_SPAN.pattern})*")
_SIZE = re.compile(r"([0-9]{1,12})\s*([bkmgt]?)(i?b)?", re.IGNORECASE)
_SIZE_SHIFTS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SCHEMA_FILE = re.compile(r"[^\n]+\.(avsc|proto|desc|json)")
_PASSWORD_IN_ADDRESS = re.compile(
    r"[?&;:]\s*(password|pwd)\s*=|//[^/@\s]*:[^/@\s]*@", re.IGNORECASE
)
PYTHON_BYTES_MAX = 1 << 20


class Misshapen(Exception):
    """A text that is not written as its key wants it: what was expected, and what to do."""

    def __init__(self, expected: str, advice: str) -> None:
        super().__init__(expected)
        self.expected = expected
        self.advice = advice


def shaped(shape: Shape, text: str, folder: str) -> str:
    """The text, checked and in the one spelling that the rest knows. Paths begin at `folder`."""
    if shape in _ON_DISK:
        return _ON_DISK[shape](text, folder)
    return _PLAIN[shape](text) if shape in _PLAIN else text


def duration_ms(text: str) -> int:
    """Milliseconds of `10 seconds`, `1 hour 30 minutes` or `10s`."""
    total = 0
    if not _SPANS.fullmatch(text.strip()):
        raise Misshapen("a duration", "Write one such as `10 seconds`, `5 minutes` or `1 hour`.")
    for count, word in _SPAN.findall(text):
        total += int(count) * _UNITS[_unit(word)]
    return total


def size_bytes(text: str) -> int:
    """Bytes of `64m`, `512 KiB` or `1g`: units are powers of 1024."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise Misshapen("a size", "Write one such as `512k`, `64m` or `1g`.")
    return int(found[1]) << _SIZE_SHIFTS[found[2].lower()]


def split_watermark(text: str) -> tuple[str, str]:
    """The column and the duration of `at 10 minutes`."""
    column, _, late = text.strip().partition(" ")
    if not late:
        raise Misshapen(
            "a column of event time and a duration", "Write them as in `at 10 minutes`."
        )
    return column, _duration(late)


def split_window(text: str) -> tuple[str, str]:
    """The length and the slide of `5 minutes / 1 minute`; windows that only follow have none."""
    length, slash, slide = text.partition("/")
    return _duration(length), _duration(slide) if slash else ""


def split_python(text: str) -> tuple[str, str]:
    """The file and the name of `transforms.py:enrich`."""
    file, colon, name = text.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise Misshapen(
            "a Python file and a name in it", "Write them as in `transforms.py:enrich`."
        )
    return file, name


def is_schema_file(text: str) -> bool:
    """Whether a schema is given by the name of its file, and not by Spark's DDL."""
    return _SCHEMA_FILE.fullmatch(text.strip()) is not None


def _unit(word: str) -> str:
    unit = _SHORT_UNITS.get(word.lower(), word.lower().removesuffix("s"))
    if unit not in _UNITS:
        raise Misshapen(
            "a duration in " + ", ".join(f"{each}s" for each in _UNITS),
            "Write one such as `10 seconds`, `5 minutes` or `1 hour`.",
        )
    return unit


def _duration(text: str) -> str:
    """A duration as Spark writes it: `90s` becomes `90 seconds`."""
    duration_ms(text)
    return " ".join(f"{int(count)} {_unit(word)}s" for count, word in _SPAN.findall(text))


def _size(text: str) -> str:
    size_bytes(text)
    return text.strip()


def _watermark(text: str) -> str:
    return " ".join(split_watermark(text))


def _window(text: str) -> str:
    if text.strip() == "session":
        return "session"
    try:
        return " / ".join(filter(None, split_window(text)))
    except Misshapen:
        raise Misshapen(
            "the length of a window",
            "Write `5 minutes`, `5 minutes / 1 minute` for windows that overlap, or `session`.",
        ) from None


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise Misshapen(
            "a name",
            "At most 200 letters, digits, dots, dashes and underscores; the first is a letter or "
            "a digit.",
        )
    return text


def _view(text: str) -> str:
    if not VIEW.fullmatch(text):
        raise Misshapen(
            "a name that SQL can use",
            "Letters, digits and underscores, and no digit at the beginning.",
        )
    return text


def _topic(text: str) -> str:
    if not TOPIC.fullmatch(text.strip()) or text.strip() in (".", ".."):
        raise Misshapen(
            "the name of a topic",
            "At most 249 letters, digits, dots, dashes and underscores.",
        )
    return text.strip()


def _topics(text: str) -> str:
    try:
        return ",".join(_topic(each) for each in text.split(","))
    except Misshapen as wrong:
        raise Misshapen(
            "the name of a topic, or several with commas",
            f"{wrong.advice} `pattern` takes a regular expression.",
        ) from None


def _brokers(text: str) -> str:
    brokers = [each.strip() for each in text.split(",")]
    if not all(BROKER.fullmatch(each) for each in brokers):
        raise Misshapen(
            "the address of a broker, or several with commas",
            "Write host and port, as in `localhost:9092`.",
        )
    return ",".join(brokers)


def _jdbc(text: str) -> str:
    if not text.startswith("jdbc:"):
        raise Misshapen("a JDBC address", "Write one such as `jdbc:postgresql://localhost/shop`.")
    if _PASSWORD_IN_ADDRESS.search(text):
        raise Misshapen(
            "an address without a password",
            "Addresses show in logs: use `user` and `password`, as in `password: ${NAME}`.",
        )
    return text


def _python(text: str, folder: str) -> str:
    file, name = split_python(text)
    if "://" in file:
        return text
    content = _read(file, folder)
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as mistake:
        line = f" in line {mistake.lineno}" if isinstance(mistake, SyntaxError) else ""
        raise Misshapen(f"a Python file, and {file} has a mistake{line}", "Correct it.") from None
    defined = set(_defined(tree))
    if name not in defined:
        known = ", ".join(sorted(each for each in defined if not each.startswith("_")))
        raise Misshapen(
            f"a name that {file} defines, and it has no {name}",
            f"It defines: {known}." if known else "It defines nothing.",
        )
    return text


def _schema(text: str, folder: str) -> str:
    if is_schema_file(text) and "://" not in text:
        _find(text.strip(), folder)
    return text.strip()


def _defined(tree: ast.Module) -> Iterator[str]:
    """What a module defines at its top level, as far as one can see without running it."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name  # and nothing that stands in it
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (each.asname or each.name.partition(".")[0] for each in node.names)
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _find(file: str, folder: str) -> str:
    path = os.path.join(folder, file)
    if "\0" in path or not os.path.isfile(path):
        raise Misshapen(
            f"a file, and there is no {file}", "Paths begin at the folder of the pipeline file."
        )
    return path


def _read(file: str, folder: str) -> bytes:
    path = _find(file, folder)
    try:
        with open(path, "rb") as opened:
            content = opened.read(PYTHON_BYTES_MAX + 1)
    except OSError as mistake:
        raise Misshapen(
            f"a readable file, and {file} is not: {mistake.strerror}", "Look at its permissions."
        ) from None
    if len(content) > PYTHON_BYTES_MAX:
        raise Misshapen(f"a Python file, and {file} is too large for one", "Divide it.")
    return content


_PLAIN: Mapping[Shape, Callable[[str], str]] = {
    Shape.NAME: _name,
    Shape.VIEW: _view,
    Shape.TOPIC: _topic,
    Shape.TOPICS: _topics,
    Shape.BROKERS: _brokers,
    Shape.DURATION: _duration,
    Shape.SIZE: _size,
    Shape.WATERMARK: _watermark,
    Shape.WINDOW: _window,
    Shape.JDBC: _jdbc,
}
_ON_DISK: Mapping[Shape, Callable[[str, str], str]] = {
    Shape.PYTHON: _python,
    Shape.SCHEMA: _schema,
}

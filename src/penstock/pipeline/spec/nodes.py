"""A YAML file as a tree of nodes that know their lines, within bounds.

Values are kept as they are written: whether `on` or `1e3` is a word or something else is for the
reader to say, who knows what a key wants. Hence keys named `on` are safe, and options of Spark keep
their spelling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from penstock.pipeline.problem import Place, Problem, Problems

FILE_BYTES_MAX = 1 << 20
DEPTH_MAX = 32
NODES_MAX = 20_000
"""Counted as if every alias were written out: small files can stand for huge ones."""

NULL_WORDS = ("null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value, as it is written."""

    line: int
    text: str
    plain: bool
    """Without quotes: only then can it be nothing (`null`, `~`)."""

    @property
    def is_nothing(self) -> bool:
        return self.plain and self.text in ("", "~", *NULL_WORDS)


@dataclass(frozen=True, slots=True)
class Listed:
    """A list."""

    line: int
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Keyed:
    """Keys and what stands beside them, in their order; no key twice."""

    line: int
    pairs: tuple[tuple[Scalar, Node], ...]

    def get(self, key: str) -> Node | None:
        return next((value for name, value in self.pairs if name.text == key), None)


Node = Scalar | Listed | Keyed


def parse(file: str, content: bytes) -> Node:
    """The one document of a file; all that is wrong with it is raised as `Problems`."""
    composer = _Composer(file, _decoded(file, content))
    try:
        root = composer.document()
    except Problem as found:
        composer.problems.append(found)
    except yaml.YAMLError as mistake:
        composer.problems.append(composer.syntax_problem(mistake))
    if composer.problems:
        raise Problems(tuple(composer.problems))
    return root


def _decoded(file: str, content: bytes) -> str:
    if len(content) > FILE_BYTES_MAX:
        raise Problems(
            (
                Problem(
                    f"the file has more than {FILE_BYTES_MAX >> 20} MiB",
                    "Is this the right file? A pipeline takes a few dozen lines.",
                    Place(file),
                ),
            )
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as mistake:
        line = content.count(b"\n", 0, mistake.start) + 1
        raise Problems(
            (Problem("the file is not text in UTF-8", "Save it as UTF-8.", Place(file, line)),)
        ) from None


class _Composer:
    """Turns the parser's events into nodes, and counts them."""

    def __init__(self, file: str, text: str) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._text = text
        # libyaml is ten times as fast, but not in every build of PyYAML.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=loader))
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._count = 0

    def document(self) -> Node:
        next(self._events)  # the stream begins
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return Scalar(1, "", plain=True)
        root = self._node(next(self._events), 0)
        next(self._events)  # the document ends
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise self._problem(
                after, "the file holds a second document", "Give each pipeline a file of its own."
            )
        return root

    def _node(self, event: Any, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise self._problem(
                event, f"more than {DEPTH_MAX} levels are nested here", "Nothing needs that many."
            )
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.tag is not None and not (event.tag == "!" and isinstance(event, yaml.ScalarEvent)):
            self.problems.append(
                self._problem(event, f"the tag {event.tag!r} has no meaning here", "Remove it.")
            )
        before = self._count
        self._add(event, 1)
        line = event.start_mark.line + 1
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = Scalar(line, event.value, plain=not event.style)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = Listed(line, tuple(self._items(depth)))
        else:
            node = Keyed(line, tuple(self._pairs(depth)))
        if event.anchor is not None:
            self._anchors[event.anchor] = node, self._count - before
        return node

    def _alias(self, event: Any) -> Node:
        if event.anchor not in self._anchors:
            raise self._problem(
                event,
                f"the alias *{event.anchor} stands for nothing that is complete before it",
                f"Put &{event.anchor} in front of what it stands for, above this line.",
            )
        node, weight = self._anchors[event.anchor]
        self._add(event, weight)
        return node

    def _items(self, depth: int) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                return
            yield self._node(event, depth + 1)

    def _pairs(self, depth: int) -> Iterator[tuple[Scalar, Node]]:
        seen: dict[str, int] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                return
            key = self._node(event, depth + 1)
            value = self._node(next(self._events), depth + 1)
            if not isinstance(key, Scalar):
                self.problems.append(
                    self._problem(
                        event, "a key must be a single word", "Variables and braces want quotes."
                    )
                )
            elif key.text in seen:
                self.problems.append(
                    self._problem(
                        event,
                        f"the key {key.text!r} stands here twice",
                        f"The other one is in line {seen[key.text]}; remove one of them.",
                    )
                )
            else:
                seen[key.text] = key.line
                yield key, value

    def _add(self, event: Any, weight: int) -> None:
        self._count += weight
        if self._count > NODES_MAX:
            raise self._problem(
                event,
                f"the file describes more than {NODES_MAX} values, its aliases written out",
                "Divide it into several pipelines.",
            )

    def _problem(self, event: Any, what: str, advice: str) -> Problem:
        return Problem(what, advice, Place(self._file, event.start_mark.line + 1))

    def syntax_problem(self, mistake: yaml.YAMLError) -> Problem:
        """What the parser could not understand, in a line."""
        advice = "Look at the indentation and the quotes there and in the line before."
        if isinstance(mistake, yaml.MarkedYAMLError):
            mark = mistake.problem_mark or mistake.context_mark
            what = ": ".join(filter(None, (mistake.context, mistake.problem)))
            line = mark.line + 1 if mark else 0
            return Problem(f"this is not YAML: {what}", advice, Place(self._file, line))
        # The reader's mistakes: characters that YAML does not know, at a position in bytes.
        position = getattr(mistake, "position", None) or 0
        line = self._text.encode().count(b"\n", 0, position) + 1
        return Problem(
            "a character here is not allowed in YAML",
            'Control characters have to be escaped in double quotes, as in "\\x00".',
            Place(self._file, line),
        )

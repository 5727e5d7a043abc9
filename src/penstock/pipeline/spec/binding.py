"""From nodes of a file to the classes of the model, with all mistakes noted on the way.

What the file may hold is read off the classes: a new key is a new field, and nothing here changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.spec.entries import ANYTHING, Shape
from penstock.pipeline.spec.keys import (
    Key,
    keys_of,
    kinds_by_marker,
    kinds_of,
    markers_of,
    one_of_keys,
)
from penstock.pipeline.spec.nodes import NULL_WORDS, Keyed, Listed, Node, Scalar
from penstock.pipeline.spec.rules import breaches
from penstock.pipeline.spec.shapes import Misshapen, shaped
from penstock.pipeline.spec.variables import Variables

QUOTED_MAX = 60
NAMED_MAX = 500
"""How many parts, or settings, may stand in one place."""

FLAGS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
"""What YAML itself takes for true and false; `yes` and `on` it does no longer."""

PROBLEMS_MAX = 100


class TooMany(Exception):
    """So many problems that nobody reads on."""


class Wrong:
    """What stands where a value could not be made; what is wrong with it is noted."""


WRONG = Wrong()


class Binder:
    """Makes parts of the model out of nodes, and remembers every problem."""

    def __init__(self, folder: str, variables: Variables) -> None:
        self.problems: list[Problem] = []
        self._folder = folder
        self._variables = variables

    def part(self, union: Any, node: Node, place: Place) -> Any:
        """A part of the file: of the one kind there is, or of the kind that its keys tell."""
        kinds = kinds_of(union)
        if isinstance(node, Scalar) and not node.is_nothing and len(kinds) == 1:
            return self._alone(kinds[0], node, place)
        if not isinstance(node, Keyed):
            return self._note(place, *_not_keys(kinds))
        kind = kinds[0] if len(kinds) == 1 else self._kind(union, node, place)
        return WRONG if kind is None else self._keyed(kind, node, place)

    def _kind(self, union: Any, node: Keyed, place: Place) -> type | None:
        by_marker = kinds_by_marker(union)
        told = [(key, by_marker[key.text]) for key, _ in node.pairs if key.text in by_marker]
        if len({kind for _, kind in told}) == 1:
            return told[0][1]
        if told:
            both = " and ".join(repr(key.text) for key, _ in told[:2])
            self._note(place, f"{both} cannot stand together", "Make two parts of them.")
            return None
        markers = list(by_marker)
        advice = _tell_kind(markers)
        for key, _ in node.pairs:
            if near := get_close_matches(key.text, markers, 1):
                self._note(
                    _below(place, key.text, key.line),
                    f"unknown key {_quoted(key.text)}",
                    f"Did you mean {near[0]!r}? {advice}",
                )
                # Go on as if it were that: there may be more to tell.
                meant = Scalar(key.line, near[0], plain=True)
                pairs = [(meant if each is key else each, beside) for each, beside in node.pairs]
                self._keyed(by_marker[near[0]], Keyed(node.line, tuple(pairs)), place)
                return None
        self._note(place, "it does not say what it is", advice)
        return None

    def _keyed(self, kind: type, node: Keyed, place: Place) -> Any:
        keys = keys_of(kind)
        noted = len(self.problems)
        given: dict[str, Any] = {}
        present: set[str] = set()
        for name, value in node.pairs:
            spot = _below(place, name.text, name.line)
            if name.text in keys:
                key = keys[name.text]
                given[key.field] = self._value(key, key.type, value, spot)
                present.add(name.text)
            else:
                present.update(self._unknown_key(name.text, keys, spot))
        self._check_presence(kind, present, place)
        if len(self.problems) > noted:
            return WRONG
        made = kind(**given, **_placed(kind, place))
        lines = {name.text: name.line for name, _ in node.pairs}
        for breach in breaches(made):
            spot = _below(place, breach.key, lines.get(breach.key, place.line))
            self._note(spot, breach.what, breach.advice)
        return WRONG if len(self.problems) > noted else made

    def _unknown_key(self, name: str, keys: Iterable[str], spot: Place) -> list[str]:
        """Tell of it; give back the key that was meant, if any: it is not missing as well."""
        valid = list(keys)
        near = get_close_matches(name, valid, 1)
        guess = f"Did you mean {near[0]!r}? " if near else ""
        self._note(spot, f"unknown key {_quoted(name)}", f"{guess}Valid here: {', '.join(valid)}.")
        return near

    def _check_presence(self, kind: type, present: set[str], place: Place) -> None:
        for name, key in keys_of(kind).items():
            if key.required and name not in present:
                example = f", as in `{name}: {key.example}`" if key.example else ""
                self._note(place, f"the key {name!r} is missing", f"{key.meaning} Add it{example}.")
        one_of = one_of_keys(kind)
        chosen = [name for name in one_of if name in present]
        if one_of and len(chosen) != 1:
            found = (
                " and ".join(map(repr, chosen)) + " stand together" if chosen else "one is missing"
            )
            self._note(place, found, f"Give exactly one of: {', '.join(one_of)}.")

    def _alone(self, kind: type, node: Scalar, place: Place) -> Any:
        keys = keys_of(kind).values()
        text = self._expanded(node, place)
        if isinstance(text, Wrong):
            return text
        for key in keys:
            if key.alone == text:
                return kind(**{key.field: True}, **_placed(kind, place))
        for key in keys:
            if key.alone == ANYTHING:
                words = [f"`{each.alone}`" for each in keys if each.alone not in ("", ANYTHING)]
                value = self._text(key, node, place, "".join(f" Or {each}." for each in words))
                return (
                    WRONG if value is WRONG else kind(**{key.field: value}, **_placed(kind, place))
                )
        return self._note(place, *_not_keys((kind,)))

    def _value(self, key: Key, kind: Any, node: Node, place: Place) -> Any:
        if isinstance(node, Scalar) and node.is_nothing:
            return self._note(place, "there is no value", f"{key.meaning} Or remove the key.")
        if kind is str:
            return self._text(key, node, place)
        if kind is int:
            return self._number(key, node, place)
        if kind is bool:
            return self._flag(node, place)
        if get_origin(kind) is tuple:
            return self._list(key, get_args(kind)[0], node, place)
        if get_origin(kind) is not None and issubclass(get_origin(kind), Mapping):
            return self._named(key, get_args(kind)[1], node, place)
        return self.part(kind, node, place)

    def _list(self, key: Key, kind: Any, node: Node, place: Place) -> Any:
        if isinstance(node, Scalar) and kind is str:
            node = Listed(node.line, (node,))
        if not isinstance(node, Listed):
            return self._note(place, "a list is wanted here", key.meaning)
        if self._wrong_count(key, len(node.items), place):
            return WRONG
        values = [
            self._value(key, kind, each, _item(place, number, each.line))
            for number, each in enumerate(node.items, 1)
        ]
        return WRONG if WRONG in values else tuple(values)

    def _named(self, key: Key, kind: Any, node: Node, place: Place) -> Any:
        if not isinstance(node, Keyed):
            return self._note(place, "keys and values are wanted here", key.meaning)
        if self._wrong_count(key, len(node.pairs), place):
            return WRONG
        values = {}
        for name, value in node.pairs:
            spot = _below(place, name.text, name.line)
            try:
                shaped(key.names, name.text, self._folder)
            except Misshapen as wrong:
                self._note(spot, f"{wrong.expected} is wanted as the key", wrong.advice)
            if kind is str and isinstance(value, Scalar) and value.text in NULL_WORDS:
                # An expression of SQL, or a way to mask.
                value = Scalar(value.line, value.text, plain=False)
            values[name.text] = self._value(key, kind, value, spot)
        return WRONG if WRONG in values.values() else values

    def _wrong_count(self, key: Key, count: int, place: Place) -> bool:
        if count > NAMED_MAX:
            self._note(place, f"more than {NAMED_MAX} stand here", "Divide the pipeline.")
            return True
        if key.required and count == 0:
            self._note(place, "nothing stands here", key.meaning)
            return True
        return False

    def _text(self, key: Key, node: Node, place: Place, more: str = "") -> Any:
        text = self._expanded(node, place)
        if isinstance(text, Wrong):
            return text
        if key.choices and text not in key.choices:
            near = get_close_matches(text, key.choices, 1)
            guess = f"Did you mean {near[0]!r}? " if near else ""
            return self._note(
                place,
                f"{self._found(key, node)} is not possible here",
                f"{guess}Possible: {', '.join(key.choices)}.{more}",
            )
        if not text and key.required:
            return self._note(place, "the text is empty", key.meaning)
        if not text:
            return text
        try:
            return shaped(key.shape if key.type is str else Shape.ANY, text, self._folder)
        except Misshapen as wrong:
            what = f"{self._found(key, node)} is not right: {wrong.expected} is wanted"
            return self._note(place, what, wrong.advice + more)

    def _number(self, key: Key, node: Node, place: Place) -> Any:
        text = self._expanded(node, place)
        if isinstance(text, Wrong):
            return text
        digits = text.replace("_", "")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 18):
            what = f"{self._found(key, node)} is not a whole number"
            return self._note(place, what, key.meaning)
        if int(digits) < key.least:
            return self._note(
                place, f"{self._found(key, node)} is too small", f"At least {key.least}."
            )
        return int(digits)

    def _flag(self, node: Node, place: Place) -> Any:
        text = self._expanded(node, place)
        if isinstance(text, Wrong):
            return text
        if text not in FLAGS:
            return self._note(place, "this is neither true nor false", "Write `true` or `false`.")
        return FLAGS[text]

    def _expanded(self, node: Node, place: Place) -> str | Wrong:
        if not isinstance(node, Scalar):
            return self._note(
                place,
                "a single value is wanted here",
                "Text with colons, commas or brackets may need quotes around it.",
            )
        try:
            return self._variables.expand(node.text, place)
        except Problem as problem:
            return self._note(place, problem.what, problem.advice)

    def _found(self, key: Key, node: Node) -> str:
        """A value as the file has it: what variables stand for is nobody's business."""
        # An address is refused, among other reasons, for the password in it.
        if key.secret or key.shape is Shape.JDBC or not isinstance(node, Scalar):
            return "the value"
        return _quoted(node.text)

    def _note(self, place: Place, what: str, advice: str) -> Wrong:
        self.problems.append(Problem(what, advice, place))
        if len(self.problems) >= PROBLEMS_MAX:
            raise TooMany
        return WRONG


def _not_keys(kinds: tuple[type, ...]) -> tuple[str, str]:
    if len(kinds) == 1:
        advice = f"Valid here: {', '.join(keys_of(kinds[0]))}."
    else:
        advice = _tell_kind([marker for kind in kinds for marker in markers_of(kind)])
    return "keys and values are wanted here", advice


def _tell_kind(markers: Iterable[str]) -> str:
    return f"One of these keys says what it is: {', '.join(markers)}."


def _placed(kind: type, place: Place) -> dict[str, Place]:
    assert is_dataclass(kind)
    return {"place": place} if any(each.name == "place" for each in fields(kind)) else {}


def _below(place: Place, key: str, line: int) -> Place:
    shown = key if key.isprintable() and len(key) <= QUOTED_MAX else _quoted(key)
    return Place(place.file, line, f"{place.path}.{shown}" if place.path else shown)


def _item(place: Place, number: int, line: int) -> Place:
    return Place(place.file, line, f"{place.path}[{number}]")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= QUOTED_MAX else text[: QUOTED_MAX - 3] + "...")

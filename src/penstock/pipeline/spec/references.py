"""Whether everything that a file speaks of by name is there: views, above all.

This looks at nodes and not at the finished model, so that a file with other mistakes is told about
these as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches

from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.spec.nodes import Keyed, Listed, Node, Scalar

RESERVED_SINK = "dead-letters"
"""The name of the sink that errors go to: no other may be called that."""


class References:
    """The views of a file, in their order, and the problems with their names."""

    def __init__(self, file: str, expand: Callable[[str, Place], str]) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._expand = expand
        self._views: dict[str, tuple[str, int]] = {}

    def check(self, root: Keyed) -> None:
        """Go through the file as rows would: sources, steps, sinks."""
        for name, _ in _pairs(root.get("sources")):
            self._make(name.text, name.line, f"sources.{name.text}")
        steps = root.get("steps")
        for number, step in enumerate(steps.items if isinstance(steps, Listed) else (), 1):
            self._step(step, number)
        for name, sink in _pairs(root.get("sinks")):
            self._use(sink, "from", f"sinks.{name.text}")
            if name.text == RESERVED_SINK:
                self._note(
                    Place(self._file, name.line, f"sinks.{name.text}"),
                    "this name is taken: errors go to the sink of that name",
                    "Call it something else.",
                )

    def _step(self, step: Node, number: int) -> None:
        path = f"steps[{number}]"
        self._use(step, "from", path)
        if not self._text(step, "table"):
            self._use(step, "join", path)
        if isinstance(step, Keyed) and isinstance(routes := step.get("route"), Keyed):
            for name, _ in routes.pairs:
                self._make(name.text, name.line, f"{path}.route.{name.text}")
        else:
            self._make(self._text(step, "as") or f"step{number}", step.line, path)

    def _make(self, view: str, line: int, path: str) -> None:
        # Spark tells no difference between `Orders` and `orders`.
        if first := self._views.get(view.lower()):
            self._note(
                Place(self._file, line, path),
                f"two views are called {first[0]!r}; the other one is in line {first[1]}",
                "Rename one of them; `as` names the result of a step.",
            )
        else:
            self._views[view.lower()] = view, line

    def _use(self, part: Node, key: str, path: str) -> None:
        name = self._text(part, key)
        if not name or name.lower() in self._views:
            return
        known = [view for view, _ in self._views.values()]
        near = get_close_matches(name, known, 1)
        guess = f"Did you mean {near[0]!r}? " if near else ""
        line = next(node.line for node, _ in _pairs(part) if node.text == key)
        self._note(
            Place(self._file, line, f"{path}.{key}"),
            "there is no such view before this point",
            f"{guess}Known here: {', '.join(known) or 'none'}.",
        )

    def _text(self, part: Node, key: str) -> str:
        node = part.get(key) if isinstance(part, Keyed) else None
        if not isinstance(node, Scalar) or node.is_nothing:
            return ""
        try:
            return self._expand(node.text, Place(self._file))
        except Problem:
            return ""  # the binder has told of it

    def _note(self, place: Place, what: str, advice: str) -> None:
        self.problems.append(Problem(what, advice, place))


def _pairs(node: Node | None) -> Iterator[tuple[Scalar, Node]]:
    if isinstance(node, Keyed):
        yield from node.pairs

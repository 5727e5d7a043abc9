"""Which names a topic may have, and which of them would be mistaken for one another."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.controller.decision import Refusal
from penstock.model.config.problems import shortened
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME_LENGTH_MAX = 249
"""A directory is named after topic and partition, and file systems stop at 255 bytes."""

METADATA_TOPIC = "__cluster_metadata"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def invalid_name(name: str) -> str | None:
    """What is wrong with a topic's name, or None if nothing is."""
    if not name:
        return "it is empty"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        quoted = shortened(name)
        return f"'{quoted}' has {len(name)} characters, and at most {NAME_LENGTH_MAX} are allowed"
    if _LEGAL.match(name) is None:
        return f"'{name}' may contain only ASCII letters, digits, '.', '_' and '-'"
    return None


def _metric_name(name: str) -> str:
    return name.replace(".", "_")


class TopicNames:
    """Finds an existing name that differs from a new one only in '.' against '_'.

    Metrics write both as '_', so two such topics would share one series.
    """

    __slots__ = ("_taken",)

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._taken: dict[str, set[str]] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        if "." in name or "_" in name:
            self._taken.setdefault(_metric_name(name), set()).add(name)

    def remove(self, name: str) -> None:
        key = _metric_name(name)
        taken = self._taken.get(key)
        if taken is not None:
            taken.discard(name)
            if not taken:
                del self._taken[key]

    def collision(self, name: str) -> str | None:
        """The existing topic that `name` would be mistaken for."""
        if "." not in name and "_" not in name:
            return None
        others = self._taken.get(_metric_name(name), set()) - {name}
        return min(others) if others else None


def refuse_name(name: str, *taken: TopicNames) -> Refusal | None:
    """Why no topic of this name may be created, were it not there already."""
    problem = invalid_name(name)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"No topic may have this name: {problem}")
    other = next(filter(None, (names.collision(name) for names in taken)), None)
    if other is not None:
        return Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Metrics could not tell '{name}' from the topic '{other}'",
        )
    return None

"""Large maps that change a little: the next one shares nearly everything with the last.

Copying a dict of ten thousand topics to add one more costs most of a millisecond, nearly all of it
spent on counting references. A layered map is a large dict that is shared and a small one of recent
changes that is copied; when the small one has grown, both become one large dict again. Small maps
stay plain dicts, and so do maps of which much changed at once.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

PLAIN_MAX = 512
"""Entries up to which copying is cheaper than thinking about it."""
RECENT_SHARE = 32
"""The recent changes may be one part in this many of the whole."""

_UNCHANGED: Any = object()


class LayeredMap(Mapping[K, V]):
    """A dict and changes to it; a change to None takes the key away. Read-only."""

    __slots__ = ("_base", "_length", "_recent")

    def __init__(self, base: dict[K, V], recent: dict[K, V | None]) -> None:
        self._base = base
        self._recent = recent
        gained = sum(value is not None and key not in base for key, value in recent.items())
        lost = sum(value is None and key in base for key, value in recent.items())
        self._length = len(base) + gained - lost

    def __getitem__(self, key: K) -> V:
        found: V | None = self._recent.get(key, _UNCHANGED)
        if found is _UNCHANGED:
            return self._base[key]
        if found is None:
            raise KeyError(key)
        return found

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        found = self._recent.get(key, _UNCHANGED)
        if found is _UNCHANGED:
            return self._base.get(key, default)
        return default if found is None else found

    def __contains__(self, key: object) -> bool:
        found = self._recent.get(key, _UNCHANGED)  # type: ignore[arg-type]
        return key in self._base if found is _UNCHANGED else found is not None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        return iter(self._merged())

    def keys(self) -> KeysView[K]:
        return self._merged().keys()

    def values(self) -> ValuesView[V]:
        return self._merged().values()

    def items(self) -> ItemsView[K, V]:
        return self._merged().items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LayeredMap):
            return self._merged() == other._merged()
        return self._merged() == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._merged())

    def _merged(self) -> dict[K, V]:
        """All of it in one dict: for whoever goes through everything anyway."""
        return merged(self._base, self._recent)


def merged(base: Mapping[K, V], changes: Mapping[K, V | None]) -> dict[K, V]:
    """A plain dict with the changes made."""
    result = dict(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = value
    return result


def changed(old: Mapping[K, V], changes: Mapping[K, V | None]) -> Mapping[K, V]:
    """`old` with some keys set and, where the value is None, some taken away."""
    if not changes:
        return old
    base, recent = (old._base, old._recent) if isinstance(old, LayeredMap) else (old, {})
    count = len(recent) + len(changes)
    if not isinstance(base, dict) or len(base) <= PLAIN_MAX or count * RECENT_SHARE > len(base):
        return merged(merged(base, recent), changes)
    return LayeredMap(base, {**recent, **changes})

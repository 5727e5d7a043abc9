"""Indented lines of Python, and the struct constants that they need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Lines:
    """Source text under construction."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self._depth = 0

    def add(self, line: str) -> None:
        self.text.append("    " * self._depth + line if line else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines added inside are indented below `head`."""
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1


class Constants:
    """The bound methods of `struct.Struct` that a module uses, one per format and direction."""

    def __init__(self) -> None:
        self._needed: dict[str, str] = {}

    def _name(self, verb: str, code: str, method: str) -> str:
        name = f"{verb}_" + code.replace("16s", "u").replace("?", "t").replace("x", "_")
        self._needed[name] = f'{name} = Struct(">{code}").{method}'
        return name

    def unpack(self, code: str) -> str:
        return self._name("unpack", code, "unpack_from")

    def pack(self, code: str) -> str:
        return self._name("pack", code, "pack")

    def lines(self) -> list[str]:
        return [self._needed[name] for name in sorted(self._needed)]

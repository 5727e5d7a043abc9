"""Randomness from a seed."""

from __future__ import annotations

import random

from penstock.model.ids import Uuid


class SeededChance:
    """The port `Chance`, drawn from one generator: the same seed, the same draws."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def between(self, low: int, high: int) -> int:
        return self._dice.randint(low, high)

    def uuid(self) -> Uuid:
        # The first byte is small: in text, an id must not begin with a dash.
        return Uuid(bytes((self._dice.randrange(1, 128),)) + self._dice.randbytes(15))

    def token_bytes(self, count: int) -> bytes:
        return self._dice.randbytes(count)

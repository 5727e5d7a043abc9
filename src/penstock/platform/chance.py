"""Randomness as an argument, so that a seed replays a run."""

from __future__ import annotations

import os
import random
from typing import Protocol

from penstock.model.ids import METADATA_TOPIC_ID, ZERO_UUID, Uuid


class Chance(Protocol):
    """Where a driver draws the random values that it passes on."""

    def between(self, low: int, high: int) -> int:
        """A whole number, low and high included."""

    def uuid(self) -> Uuid:
        """A fresh uuid that is neither reserved nor starts with a dash in text form."""

    def token_bytes(self, count: int) -> bytes:
        """Bytes that nobody can guess: salts, nonces, secrets."""


class SystemChance:
    """The operating system's randomness."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def between(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def uuid(self) -> Uuid:
        while True:
            raw = bytearray(os.urandom(16))
            raw[6] = raw[6] & 0x0F | 0x40  # version 4
            raw[8] = raw[8] & 0x3F | 0x80
            # Kafka's tools take ids as arguments, where a leading dash reads as an option:
            # the first base64 character is a dash when the top six bits are 62.
            if raw[0] >> 2 != 62 and bytes(raw) not in (ZERO_UUID, METADATA_TOPIC_ID):
                return Uuid(bytes(raw))

    def token_bytes(self, count: int) -> bytes:
        return os.urandom(count)

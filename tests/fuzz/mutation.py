"""Changing inputs blindly: what the short run does, where no coverage guides it."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

NUMBERS = (0, 1, 2, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, -1, -2, -(2**31))
VARINTS = (b"\x00", b"\x7f", b"\x80\x01", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f")


def mutated(chance: random.Random, inputs: Sequence[bytes], size_max: int) -> bytes:
    """One of the inputs after a few changes."""
    data = bytearray(chance.choice(inputs)[:size_max])
    for _ in range(1 << chance.randrange(4)):
        _change(chance, data, inputs)
    return bytes(data[:size_max])


def _change(chance: random.Random, data: bytearray, inputs: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    kind = chance.randrange(8)
    if kind == 0 and data:
        data[at % len(data)] ^= 1 << chance.randrange(8)
    elif kind == 1:
        data[at : at + 1] = bytes((chance.randrange(256),))
    elif kind == 2:
        del data[at : at + 1 + chance.randrange(16)]
    elif kind == 3:
        data[at:at] = data[at : at + 1 + chance.randrange(64)]
    elif kind == 4:
        other = chance.choice(inputs)
        start = chance.randrange(len(other) + 1)
        data[at:at] = other[start : start + chance.randrange(64)]
    elif kind == 5:
        form = chance.choice((">h", ">i"))
        size = struct.calcsize(form)
        mask = (1 << 8 * size) - 1
        data[at : at + size] = (chance.choice(NUMBERS) & mask).to_bytes(size, "big")
    elif kind == 6:
        varint = chance.choice(VARINTS)
        data[at : at + len(varint)] = varint
    else:
        del data[at:]

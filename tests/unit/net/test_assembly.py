"""The unserved end of a connection's input, and the memory that it is charged for."""

from __future__ import annotations

import struct

from penstock.net.buffers import SHARED_BYTES, BufferPool
from penstock.net.framing import FrameAssembly


def receive(assembly: FrameAssembly, data: bytes) -> memoryview:
    """As a socket does: as much as there is room for; what lies there now."""
    room = assembly.room()
    count = min(len(room), len(data))
    room[:count] = data[:count]
    return assembly.take(count)


def test_many_small_frames_behind_a_large_one_are_charged_for_all_their_bytes() -> None:
    pool = BufferPool(1 << 30)
    assembly = FrameAssembly(pool, 100_000_000)
    large = struct.pack(">i", 6_000_000) + bytes(6_000_000)
    small = (struct.pack(">i", 1_000) + bytes(1_000)) * 400
    data, taken = large + small, 200_000
    view = receive(assembly, data[:taken])
    while len(view) < len(large):
        assembly.keep(view)
        view = receive(assembly, data[taken:])
        taken = len(view)
    rest = view[len(large) :]
    assert len(rest) > SHARED_BYTES
    assembly.keep(rest)  # the first of them has to wait
    assert assembly.held_bytes >= len(rest)
    assert pool.borrowed_bytes == assembly.held_bytes
    assembly.drop()
    assert pool.borrowed_bytes == 0

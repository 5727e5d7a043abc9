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


def test_a_frame_that_waits_knows_what_it_lacks() -> None:
    assembly = FrameAssembly(BufferPool(1 << 30), 100_000_000)
    assert assembly.missing == 0
    assembly.keep(receive(assembly, b"\0\0"))
    assert assembly.missing == 0, "how long it will be is not known yet"
    assembly.keep(receive(assembly, b"\0\x64" + bytes(30)))
    assert assembly.missing == 70
    assembly.keep(receive(assembly, bytes(80)))
    assert assembly.missing == 0, "it is whole, and part of the next is here"

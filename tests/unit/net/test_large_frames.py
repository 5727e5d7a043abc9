"""Frames that are larger than what one read takes."""

from __future__ import annotations

import struct

from penstock.net.buffers import SHARED_BYTES, BufferPool
from penstock.net.framing import PEEK_BYTES, FrameAssembly


def test_where_large_frames_come_one_after_another_little_is_read_aside() -> None:
    assembly = FrameAssembly(BufferPool(1 << 30), 1 << 30)
    frame = struct.pack(">i", 1_000_000) + bytes(1_000_000)
    sizes = []
    for _ in range(3):
        at = 0
        while at < len(frame):
            room = assembly.room()
            count = min(len(room), len(frame) - at)
            room[:count] = frame[at : at + count]
            view = assembly.take(count)
            at += count
            sizes.append(count)
            assembly.keep(view if at < len(frame) else view[:0])
    first, *others = sizes[0], sizes[2], sizes[4]
    assert first == SHARED_BYTES
    assert others == [PEEK_BYTES, PEEK_BYTES]
    assert len(sizes) == 6


def test_a_small_frame_ends_the_care_for_large_ones() -> None:
    assembly = FrameAssembly(BufferPool(1 << 30), 1 << 30)
    frame = struct.pack(">i", 500_000) + bytes(500_000)
    assembly.room()[:] = frame[:SHARED_BYTES]
    assembly.keep(assembly.take(SHARED_BYTES))
    rest = len(frame) - SHARED_BYTES
    assert len(assembly.room()) == rest
    assembly.keep(assembly.take(rest)[:0])
    assert len(assembly.room()) == PEEK_BYTES
    assembly.keep(assembly.take(100)[:0])
    assert len(assembly.room()) == SHARED_BYTES

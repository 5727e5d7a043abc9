"""Frames come out as they went in, however the network cuts them, and memory follows bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.net.buffers import BORROWED_BYTES_MIN, BufferPool
from penstock.net.framing import FrameAssembly, FrameError, frame_length

FRAME_BYTES_MAX = 200_000

bodies = st.lists(
    st.one_of(
        st.binary(max_size=64),
        st.integers(0, FRAME_BYTES_MAX).map(lambda size: bytes([size % 251]) * size),
    ),
    max_size=8,
)


def _stream(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in frames)


class _Cutter:
    """Cuts frames as a connection does, with `served_max` of them at a time."""

    def __init__(self, assembly: FrameAssembly, served_max: int) -> None:
        self.assembly = assembly
        self.served_max = served_max
        self.frames: list[bytes] = []

    def receive(self, data: bytes) -> int:
        """Take as much of `data` as there is room for; answers how much."""
        room = self.assembly.room()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        self._cut(self.assembly.take(count))
        return count

    def _cut(self, view: memoryview) -> None:
        at, served = 0, 0
        while len(view) - at >= 4 and served < self.served_max:
            end = at + 4 + frame_length(view, at, FRAME_BYTES_MAX)
            if end > len(view):
                break
            self.frames.append(bytes(view[at + 4 : end]))
            at = end
            served += 1
        if at != len(view) or self.assembly.waiting:
            self.assembly.keep(view[at:])

    def finish(self) -> None:
        """Serve what was put aside, as when a waiting request is answered."""
        before = -1
        while before != len(self.frames):
            before = len(self.frames)
            self._cut(self.assembly.take(0))


@given(frames=bodies, cuts=st.lists(st.integers(1, 70_000), min_size=1), served=st.integers(1, 5))
def test_any_split_gives_the_same_frames(frames: list[bytes], cuts: list[int], served: int) -> None:
    pool = BufferPool(1 << 40)
    cutter = _Cutter(FrameAssembly(pool, FRAME_BYTES_MAX), served)
    stream, at = _stream(frames), 0
    for cut in cuts:
        at += cutter.receive(stream[at : at + cut])
    while at < len(stream):
        at += cutter.receive(stream[at : at + 50_000])
    cutter.finish()
    assert cutter.frames == frames
    assert cutter.assembly.held_bytes == 0
    assert pool.borrowed_bytes == 0


@given(announced=st.integers(0, FRAME_BYTES_MAX), cuts=st.lists(st.integers(1, 5000), min_size=1))
def test_memory_follows_the_bytes_that_came_and_not_those_announced(
    announced: int, cuts: list[int]
) -> None:
    pool = BufferPool(1 << 40)
    cutter = _Cutter(FrameAssembly(pool, FRAME_BYTES_MAX), 10)
    stream = _stream([bytes(announced)])
    at = 0
    for cut in cuts:
        at += cutter.receive(stream[at : at + cut])
        # Sixteen times what came, rounded up to a power of two.
        assert cutter.assembly.held_bytes <= max(BORROWED_BYTES_MIN, 32 * at)
        assert pool.borrowed_bytes == cutter.assembly.held_bytes


@given(sizes=st.lists(st.integers(1, 3_000_000), max_size=40))
def test_what_is_given_back_is_no_longer_borrowed_and_spares_are_bounded(sizes: list[int]) -> None:
    pool = BufferPool(1 << 40)
    lent = [pool.borrow(size) for size in sizes]
    assert all(len(buffer) >= size for buffer, size in zip(lent, sizes, strict=True))
    assert len({id(buffer) for buffer in lent}) == len(lent)
    assert pool.borrowed_bytes == sum(map(len, lent))
    for buffer in lent:
        pool.give_back(buffer)
    assert pool.borrowed_bytes == 0


@given(length=st.integers(-(2**31), 2**31 - 1), limit=st.integers(0, 2**31 - 1))
def test_a_length_is_taken_or_refused_by_its_bounds(length: int, limit: int) -> None:
    view = memoryview(struct.pack(">i", length))
    if 0 <= length <= limit:
        assert frame_length(view, 0, limit) == length
    else:
        with pytest.raises(FrameError):
            frame_length(view, 0, limit)

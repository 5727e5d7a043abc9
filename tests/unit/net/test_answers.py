"""Answers come out whole, however they arrive."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.net.answers import KEPT_BYTES, AnswerAssembly, AnswerError

BYTES_MAX = 1 << 20


def framed(contents: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(each)) + each for each in contents)


def receive(assembly: AnswerAssembly, stream: bytes, steps: list[int]) -> list[memoryview]:
    """Feed a stream in reads of these sizes, over and over, each as far as there is room."""
    found: list[memoryview] = []
    at = number = 0
    while at < len(stream):
        room = assembly.room()
        assert len(room), "a socket that is given no room is taken for closed"
        piece = stream[at : at + min(len(room), steps[number % len(steps)])]
        room[: len(piece)] = piece
        found += assembly.take(len(piece))
        at += len(piece)
        number += 1
    return found


@settings(max_examples=80)
@given(
    sizes=st.lists(
        st.one_of(
            st.integers(0, 300),
            st.integers(KEPT_BYTES - 8, KEPT_BYTES + 8),
            st.integers(100_000, 200_000),
        ),
        max_size=6,
    ),
    steps=st.lists(
        st.sampled_from([1000, 4096, 65_535, 1 << 20]) | st.integers(500, 3000), min_size=1
    ),
)
def test_any_reads_of_a_stream_give_the_answers_in_it(sizes: list[int], steps: list[int]) -> None:
    contents = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    found = receive(AnswerAssembly(BYTES_MAX), framed(contents), steps)
    assert [bytes(each) for each in found] == contents


def test_a_stream_that_comes_byte_by_byte_is_understood() -> None:
    contents = [b"", b"one", b"x" * 300]
    found = receive(AnswerAssembly(BYTES_MAX), framed(contents), [1])
    assert [bytes(each) for each in found] == contents


def test_an_answer_stays_as_it_was_while_others_come() -> None:
    assembly = AnswerAssembly(BYTES_MAX)
    (small,) = receive(assembly, framed([b"small"]), [9])
    (large,) = receive(assembly, framed([b"l" * 100_000]), [50_000])
    receive(assembly, framed([b"other" * 10, b"m" * 100_000]), [70_000])
    assert (bytes(small), bytes(large)) == (b"small", b"l" * 100_000)


@pytest.mark.parametrize("size", [-1, BYTES_MAX + 1, 2**31 - 1])
def test_an_answer_of_no_sensible_size_is_refused(size: int) -> None:
    with pytest.raises(AnswerError):
        receive(AnswerAssembly(BYTES_MAX), struct.pack(">i", size), [4])

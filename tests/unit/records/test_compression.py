from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys

import pytest

from penstock.records.compression import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    DecompressedTooLarge,
    DecompressionFailed,
    compress,
    decompress,
)

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
SAMPLES = [b"", b"a", b"hello world " * 5000, os.urandom(70_000), bytes(2_000_000)]


@pytest.mark.parametrize("codec", [NONE, *CODECS])
@pytest.mark.parametrize("level", [None, 1, 5, 9])
def test_what_is_compressed_comes_back(codec: int, level: int | None) -> None:
    for sample in SAMPLES:
        assert decompress(codec, compress(codec, sample, level)) == sample


@pytest.mark.parametrize("codec", CODECS)
def test_the_bound_is_exact(codec: int) -> None:
    data = compress(codec, b"x" * 100_000)
    assert len(decompress(codec, data, 100_000)) == 100_000
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, data, 99_999)


def bomb(codec: int) -> bytes:
    """Some hundred megabytes of zeros, made without holding them."""
    block = compress(codec, bytes(32 << 20))
    if codec == GZIP:
        return block * 8  # members follow each other
    if codec == SNAPPY:
        return block[:16] + block[16:] * 8
    return compress(codec, bytes(256 << 20))


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused_before_it_takes_memory(codec: int) -> None:
    # In a process of its own, so that the peak of its memory is the bomb's alone.
    data = bomb(codec)
    code = f"""
import resource, sys
import cramjam
from penstock.records.compression import DecompressedTooLarge, decompress
data = sys.stdin.buffer.read()
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
try:
    decompress({codec}, data, 4 << 20)
except DecompressedTooLarge:
    print("refused", peak() - before)
"""
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"],
        input=data,
        capture_output=True,
        check=True,
    )
    word, kilobytes = run.stdout.split()
    assert word == b"refused"
    # Four megabytes are allowed, and their buffer may be copied once while it grows.
    assert int(kilobytes) < 14 << 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0


def test_a_snappy_block_that_lies_about_its_size_costs_nothing() -> None:
    with pytest.raises(DecompressionFailed, match="claim to hold"):
        decompress(SNAPPY, b"\xff\xff\xff\x07" + b"\x00" * 20)


def test_a_zstd_window_beyond_the_bound_is_refused() -> None:
    frame = b"\x28\xb5\x2f\xfd" + bytes([0x00, 17 << 3]) + bytes(10)  # a window of 128 MB
    with pytest.raises(DecompressedTooLarge, match="window"):
        decompress(ZSTD, frame, 16 << 20)


def test_an_lz4_frame_that_lies_about_its_size_costs_nothing() -> None:
    frame = bytearray(compress(LZ4, b"x" * 100))
    frame[4] |= 0x08
    frame[6:6] = struct.pack("<Q", 2**60)
    with pytest.raises(DecompressedTooLarge):
        decompress(LZ4, frame)


@pytest.mark.parametrize("codec", CODECS)
def test_garbage_is_refused_by_name(codec: int) -> None:
    for garbage in (b"garbage that no codec wrote", b"\xff" * 100):
        with pytest.raises(DecompressionFailed):
            decompress(codec, garbage)


@pytest.mark.parametrize("codec", CODECS)
def test_data_that_is_cut_short_is_refused(codec: int) -> None:
    data = compress(codec, os.urandom(1000))
    with pytest.raises(DecompressionFailed):
        decompress(codec, data[: len(data) // 2])


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(DecompressionFailed, match="not known"):
        decompress(5, b"x")


def test_raw_snappy_blocks_are_read_as_well_as_framed_ones() -> None:
    import cramjam

    raw = bytes(cramjam.snappy.compress_raw(b"raw, as librdkafka writes it " * 50))
    assert decompress(SNAPPY, raw) == b"raw, as librdkafka writes it " * 50

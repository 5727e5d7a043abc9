"""The four codecs of Kafka's batches, with a bound on what a batch may decompress to.

A few kilobytes of zstd can claim gigabytes. The bound therefore holds while the bytes come out, not
afterwards: gzip streams up to a limit, snappy names its size up front, and lz4 and zstd decompress
into a buffer that cannot grow by itself. Where the frame names its size, that is how large the
buffer is made; where it does not (Java's streams don't), the buffer starts small and is tried again
four times as large, up to the bound.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from penstock.records.batch import Bytes

NONE = 0
GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

SIZE_MAX = 64 << 20
"""What a batch decompresses to at most, where nobody says otherwise: 64 times the largest batch
that a broker takes by default."""

LEVEL_DEFAULTS = {GZIP: 6, LZ4: 9, ZSTD: 3}

GZIP_LEVELS = range(1, 10)
LZ4_LEVELS = range(1, 18)
ZSTD_LEVELS = range(-131072, 23)

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEAD = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, and the oldest that can read it
_XERIAL_BLOCK = 32 << 10
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_INT32 = struct.Struct(">i")

_GUESS_MIN = 16 << 10
_GUNZIP_STEP = 4 << 20
_GZIP_WRAPPER = 16 + zlib.MAX_WBITS  # how zlib is told to write and expect gzip's own header
_TOO_SMALL = "failed to write whole buffer"  # what cramjam says of a full output buffer


class DecompressionFailed(ValueError):
    """The bytes are not what their codec writes."""


class DecompressedTooLarge(DecompressionFailed):
    """The batch would decompress to more than the bound."""


def decompress(codec: int, data: Bytes, size_max: int = SIZE_MAX) -> memoryview:
    """`data` as it was before compression, of at most `size_max` bytes."""
    if codec == NONE or not data:
        return memoryview(data)
    if codec == GZIP:
        return memoryview(_gunzip(data, size_max))
    if codec == SNAPPY:
        return _unsnappy(memoryview(data), size_max)
    if codec == LZ4:
        return _into_buffer(_cramjam().lz4, data, _lz4_size(data), size_max)
    if codec == ZSTD:
        return _into_buffer(_cramjam().zstd, data, _zstd_size(data, size_max), size_max)
    raise DecompressionFailed(f"compression {codec} is not known: expected 0 to 4")


def compress(codec: int, data: Bytes, level: int | None = None) -> bytes:
    """`data` in the form that Kafka's clients in every language can read."""
    if level is None:
        level = LEVEL_DEFAULTS.get(codec, 0)
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        stream = zlib.compressobj(level, zlib.DEFLATED, _GZIP_WRAPPER)
        return stream.compress(data) + stream.flush()
    if codec == SNAPPY:
        return _snappy(memoryview(data))
    if codec == LZ4:
        return _lz4(data, level)
    if codec == ZSTD:
        return bytes(_cramjam().zstd.compress(data, level=level))
    raise ValueError(f"compression {codec} is not known: expected 0 to 4")


def _cramjam() -> Any:
    import cramjam  # a broker that never looks into a compressed batch never loads it

    return cramjam


def _too_large(size_max: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"the batch decompresses to more than {size_max} bytes")


def _gunzip(data: Bytes, size_max: int) -> bytearray:
    out = bytearray()
    rest: Bytes = data
    while rest:  # a gzip stream may consist of several members
        stream = zlib.decompressobj(_GZIP_WRAPPER)
        while rest and not stream.eof:
            try:
                # In steps: zlib holds what one call gives twice, and a bomb gives all it may.
                out += stream.decompress(rest, min(_GUNZIP_STEP, size_max - len(out) + 1))
            except zlib.error as error:
                raise DecompressionFailed(f"not gzip: {error}") from None
            if len(out) > size_max:
                raise _too_large(size_max)
            rest = stream.unconsumed_tail
        if not stream.eof:
            raise DecompressionFailed("gzip data is cut short")
        rest = stream.unused_data
    return out


def _unsnappy(data: memoryview, size_max: int) -> memoryview:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnappy_block(data, size_max)
    out = bytearray()
    at = len(_XERIAL_HEAD)
    while at < len(data):
        if at + 4 > len(data):
            raise DecompressionFailed("snappy data is cut short")
        size = _INT32.unpack_from(data, at)[0]
        at += 4
        if size < 0 or at + size > len(data):
            raise DecompressionFailed(f"a snappy block of {size} bytes in {len(data) - at}")
        # The bound counts what earlier blocks gave: many small blocks make a bomb as well.
        out += _unsnappy_block(data[at : at + size], size_max - len(out), size_max)
        at += size
    return memoryview(out)


def _unsnappy_block(data: memoryview, room: int, size_max: int | None = None) -> memoryview:
    snappy = _cramjam().snappy
    try:
        size = snappy.decompress_raw_len(data)
        if size > room:
            raise _too_large(size_max or room)
        # Three bytes can become 64, but not more: a larger claim is a lie, and costs no memory.
        if size > 22 * len(data):
            raise DecompressionFailed(f"{len(data)} bytes of snappy claim to hold {size}")
        return memoryview(snappy.decompress_raw(data))
    except _cramjam().DecompressionError as error:
        raise DecompressionFailed(f"not snappy: {error}") from None


def _snappy(data: memoryview) -> bytes:
    """In xerial's framing, which Java's snappy streams write and all clients read."""
    compress_block = _cramjam().snappy.compress_raw
    out = bytearray(_XERIAL_HEAD)
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(compress_block(data[at : at + _XERIAL_BLOCK]))
        out += _INT32.pack(len(block))
        out += block
    return bytes(out)


def _lz4(data: Bytes, level: int) -> bytes:
    # Java's reader refuses blocks that refer to earlier ones, so they stand alone. Kafka's level 9
    # means lz4's fast mode, its default; all others mean the high-compression mode of that level.
    fast = level == LEVEL_DEFAULTS[LZ4]
    stream = _cramjam().lz4.Compressor(0 if fast else max(3, min(level, 12)), False, False)
    stream.compress(bytes(data))  # it takes nothing else
    return bytes(stream.finish())


def _into_buffer(module: Any, data: Bytes, claimed: int | None, size_max: int) -> memoryview:
    """Decompress into a buffer of fixed size, larger ones as long as the bound allows."""
    if claimed is not None and claimed > size_max:
        raise _too_large(size_max)
    # A claim is trusted within reason only: memory is paid for bytes that came, not for promises.
    guess = max(_GUESS_MIN, 4 * len(data))
    room = min(size_max, guess if claimed is None else min(claimed, 64 * guess))
    while True:
        out = bytearray(room)
        try:
            size = module.decompress_into(data, out)
        except _cramjam().DecompressionError as error:
            if _TOO_SMALL not in str(error):
                raise DecompressionFailed(f"not {module.__name__}: {error}") from None
            if room >= size_max:
                raise _too_large(size_max) from None
            room = min(size_max, 4 * room)
            continue
        return memoryview(out)[:size]


def _lz4_size(data: Bytes) -> int | None:
    """The content size that an lz4 frame names, if it does."""
    if len(data) < 15 or bytes(data[:4]) != _LZ4_MAGIC or not data[4] & 0x08:
        return None
    return int.from_bytes(data[6:14], "little")


def _zstd_size(data: Bytes, size_max: int) -> int | None:
    """The content size that a zstd frame names, if it does; refuses windows above the bound."""
    if len(data) < 6 or bytes(data[:4]) != _ZSTD_MAGIC:
        return None
    descriptor = data[4]
    at = 5
    single = descriptor & 0x20
    if not single:
        exponent, mantissa = data[at] >> 3, data[at] & 7
        window = (1 << (10 + exponent)) // 8 * (8 + mantissa)
        # The decoder allocates the window before it has seen a byte of content. Encoders round
        # it up to 8 MB at their usual levels, whatever the content.
        if window > max(size_max, 8 << 20):
            raise DecompressedTooLarge(f"a zstd window of {window} bytes is beyond {size_max}")
        at += 1
    at += (0, 1, 2, 4)[descriptor & 3]  # dictionary id
    width = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    if width == 0 or at + width > len(data):
        return None
    return int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0)

"""Lines of files as Arrow columns, many at once and without a loop over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

BLOCK_BYTES = 4 << 20
LINE_BYTES_MAX = 64 << 20
"""A line longer than this is not a line: a file without newlines would fill the memory."""

BOM = b"\xef\xbb\xbf"
"""What some editors put in front of a text, and nobody means to be part of it."""

LINES_TYPE = "value binary, _file string, _line bigint"


class LineTooLong(ValueError):
    """A file is not made of lines."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__(f"line {line} of {path} is longer than {LINE_BYTES_MAX >> 20} MiB")


def read_lines(
    file: IO[bytes], path: str, first_line: int, bytes_max: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The lines from where `file` stands, `bytes_max` of them or all; the last may lack its end."""
    line = first_line
    rest = b""
    left = bytes_max
    while True:
        wanted = BLOCK_BYTES if left is None else min(BLOCK_BYTES, left)
        block = file.read(wanted) if wanted else b""
        if not block:
            break
        if left is not None:
            left -= len(block)
        if line == 1 and not rest:
            block = block.removeprefix(BOM)
        cut = block.rfind(b"\n") + 1
        if not cut:
            rest += block
            if len(rest) > LINE_BYTES_MAX:
                raise LineTooLong(path, line)
            continue
        batch = lines_of(rest + block[:cut], path, line)
        line += batch.num_rows
        rest = block[cut:]
        yield batch
    if rest:
        yield lines_of(rest + b"\n", path, line)


def lines_of(data: bytes, path: str, first_line: int) -> pa.RecordBatch:
    """One row per line of `data`, which ends with a newline."""
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    count = len(ends)
    # Arrow wants the values side by side: without its newlines, each end moves by those before it.
    offsets = np.zeros(count + 1, np.int32)
    offsets[1:] = ends - np.arange(count)
    values = pa.Array.from_buffers(
        pa.binary(),
        count,
        [None, pa.py_buffer(offsets), pa.py_buffer(data.replace(b"\n", b""))],
    )
    return pa.RecordBatch.from_arrays(
        [
            values,
            pa.repeat(pa.scalar(path, pa.string()), count),
            pa.array(np.arange(first_line, first_line + count)),
        ],
        ["value", "_file", "_line"],
    )

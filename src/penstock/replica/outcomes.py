"""What comes of appending to a partition, and of reading from it."""

from __future__ import annotations

from typing import NamedTuple

from penstock.model.errors import ErrorCode
from penstock.storage.log_slice import LogSlice


class Appended(NamedTuple):
    """Where a batch stands now, or stood already if it came a second time."""

    base_offset: int
    end_offset: int
    append_time: int
    log_start: int


class Refused(NamedTuple):
    """Why a batch was not appended."""

    error: ErrorCode
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()


class Readable(NamedTuple):
    """What a reader gets: a slice, or nothing yet, and how far the partition has come."""

    data: LogSlice | None
    high_watermark: int
    last_stable: int
    log_start: int

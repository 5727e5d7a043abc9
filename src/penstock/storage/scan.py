"""One pass over a segment that nobody vouches for: how much of it is sound, and what it holds.

Reads in large pieces and checks each batch's CRC in C. What comes back is everything that recovery
needs, so that no segment is read twice for it.
"""

from __future__ import annotations

import zlib

from penstock.platform.disk import File
from penstock.records.batch import CRC_OFFSET, HEAD_SIZE, MAGIC, MAGIC_OFFSET, crc_of, read_head
from penstock.storage.index import SegmentIndex
from penstock.storage.segment import RELATIVE_OFFSET_MAX

CHUNK = 4 << 20
LEGACY_HEAD_SIZE = 26


class LegacyMessages(OSError):
    """The segment holds messages of format 0 or 1, which Kafka stopped writing in 2017."""


class Scan:
    """What a segment was found to hold, up to the first byte that is not sound."""

    __slots__ = (
        "end",
        "epochs",
        "has_producers",
        "index",
        "max_timestamp",
        "max_timestamp_offset",
        "size",
        "why",
    )

    def __init__(self, base: int) -> None:
        self.size = 0
        self.end = base
        self.index = SegmentIndex()
        self.max_timestamp = -1
        self.max_timestamp_offset = base
        self.epochs: list[tuple[int, int]] = []
        """(leader epoch, base offset) of each batch that begins a new epoch."""
        self.has_producers = False
        self.why = ""
        """What is wrong with the byte at `size`, if the file goes on there."""


def scan_segment(file: File, base: int, interval: int) -> Scan:
    """Read `file` from its beginning until its end, or the first batch that is not sound."""
    scan = Scan(base)
    last_entry = 0
    piece_size = CHUNK
    while scan.size < file.size and not scan.why:
        piece = memoryview(file.pread(min(piece_size, file.size - scan.size), scan.size))
        at = 0
        piece_size = CHUNK
        while at + HEAD_SIZE <= len(piece):
            head = read_head(piece, at)
            after = at + head.length + 12
            if head.magic != MAGIC or head.length < HEAD_SIZE - 12:
                scan.why = _what_is_wrong(piece, at, file.path)
                break
            if after > len(piece):
                piece_size = max(CHUNK, after - at)  # goes on in the next piece
                break
            last = head.base_offset + head.last_offset_delta
            if crc_of(piece, at, after) != head.crc:
                scan.why = "a checksum does not match"
                break
            if head.base_offset < scan.end or not 0 <= last - base <= RELATIVE_OFFSET_MAX:
                scan.why = f"offset {head.base_offset} stands where {scan.end} was next"
                break
            if head.max_timestamp > scan.max_timestamp:
                scan.max_timestamp, scan.max_timestamp_offset = head.max_timestamp, last
            position = scan.size + at
            if position - last_entry > interval:
                scan.index.add(last - base, position)
                scan.index.add_time(scan.max_timestamp, scan.max_timestamp_offset - base)
                last_entry = position
            if head.leader_epoch >= 0 and (
                not scan.epochs or head.leader_epoch > scan.epochs[-1][0]
            ):
                scan.epochs.append((head.leader_epoch, head.base_offset))
            if head.producer_id >= 0:
                scan.has_producers = True
            scan.end = last + 1
            at = after
        if at == 0 and not scan.why and scan.size + max(piece_size, HEAD_SIZE) > file.size:
            scan.why = "the file ends within a batch"
        scan.size += at
    scan.index.add_time(scan.max_timestamp, scan.max_timestamp_offset - base)
    return scan


def _what_is_wrong(piece: memoryview, at: int, path: str) -> str:
    """Say what stands where a batch should; LegacyMessages if it is a sound one of old formats.

    Cutting those off as if they were torn would destroy data that Kafka itself can read.
    """
    head = read_head(piece, at)
    end = at + 12 + head.length
    if head.magic in (0, 1) and head.length >= LEGACY_HEAD_SIZE - 12 and end <= len(piece):
        crc = int.from_bytes(piece[at + 12 : at + 16], "big")
        if zlib.crc32(piece[at + MAGIC_OFFSET : end]) == crc:
            raise LegacyMessages(
                95,
                f"messages of format {head.magic}, which Penstock does not read: "
                "copy the topic with a Kafka client first",
                path,
            )
    if not any(piece[at : at + CRC_OFFSET]):
        return "zeros"
    return f"length {head.length} and magic {head.magic} make no batch"

"""One pass over a segment that nobody vouches for: how much of it is sound, and what it holds.

Reads in large pieces and checks each batch's CRC in C. What comes back is everything that recovery
needs, so that no segment is read twice for it.
"""

from __future__ import annotations

import zlib

from penstock.platform.disk import File
from penstock.records.batch import (
    ATTRIBUTES_OFFSET,
    CONTROL,
    CRC_OFFSET,
    HEAD,
    HEAD_SIZE,
    MAGIC,
    MAGIC_OFFSET,
    PREFIX_SIZE,
    batch_end,
    read_head,
)
from penstock.records.checksum import crc32c
from penstock.storage.index import SegmentIndex
from penstock.storage.segment import LENGTH_MIN, RELATIVE_OFFSET_MAX

CHUNK = 4 << 20
LEGACY_HEAD_SIZE = 26


class LegacyMessages(OSError):
    """The segment holds messages of format 0 or 1, which Kafka stopped writing in 2017."""


class Scan:
    """What a segment was found to hold, up to the first byte that is not sound."""

    __slots__ = (
        "end",
        "epochs",
        "has_controls",
        "has_producers",
        "index",
        "last_entry",
        "max_timestamp",
        "max_timestamp_offset",
        "size",
        "why",
    )

    def __init__(self, base: int) -> None:
        self.size = 0
        self.end = base
        self.index = SegmentIndex()
        self.last_entry = 0
        """Where the batch of the last index entry begins."""
        self.max_timestamp = -1
        self.max_timestamp_offset = base
        self.epochs: list[tuple[int, int]] = []
        """(leader epoch, base offset) of each batch that begins a new epoch."""
        self.has_producers = False
        self.has_controls = False
        """Whether there are control batches of no producer."""
        self.why = ""
        """What is wrong with the byte at `size`, if the file goes on there."""


def scan_segment(file: File, base: int, interval: int) -> Scan:
    """Read `file` from its beginning until its end, or the first batch that is not sound."""
    scan = Scan(base)
    wanted = CHUNK
    while scan.size < file.size and not scan.why:
        piece = memoryview(file.pread(min(wanted, file.size - scan.size), scan.size))
        at = _scan_piece(scan, piece, base, interval, file.path)
        if at == 0 and not scan.why:  # the first batch does not fit into the piece
            wanted = batch_end(piece, 0) if len(piece) >= HEAD_SIZE else HEAD_SIZE
            if scan.size + wanted > file.size:
                scan.why = "the file ends within a batch"
        else:
            wanted = CHUNK
        scan.size += at
    scan.index.add_time(scan.max_timestamp, scan.max_timestamp_offset - base)
    return scan


def _scan_piece(scan: Scan, piece: memoryview, base: int, interval: int, path: str) -> int:
    """Take note of the whole batches in `piece`; answers where the first other byte is.

    After a crash this runs for each batch of each active segment, hence the local names.
    """
    at, size, start = 0, len(piece), scan.size
    end, epoch = scan.end, scan.epochs[-1][0] if scan.epochs else -1
    unpack, checksum = HEAD.unpack_from, crc32c
    while at + HEAD_SIZE <= size:
        (offset, length, leader, magic, crc, attributes, delta, _, timestamp, producer, _, _, _) = (
            unpack(piece, at)
        )
        after = at + length + PREFIX_SIZE
        if magic != MAGIC or length < LENGTH_MIN:
            scan.why = _what_is_wrong(piece, at, path)
            break
        if after > size:
            break  # goes on in the next piece
        if checksum(piece[at + ATTRIBUTES_OFFSET : after]) != crc:
            scan.why = "a checksum does not match"
            break
        last = offset + delta
        if offset < end or last - base > RELATIVE_OFFSET_MAX or delta < 0:
            scan.why = f"offset {offset} stands where {end} was next"
            break
        if timestamp > scan.max_timestamp:
            scan.max_timestamp, scan.max_timestamp_offset = timestamp, last
        if start + at - scan.last_entry > interval:
            scan.index.add(last - base, start + at)
            scan.index.add_time(scan.max_timestamp, scan.max_timestamp_offset - base)
            scan.last_entry = start + at
        if leader > epoch:
            scan.epochs.append((leader, offset))
            epoch = leader
        if producer >= 0:
            scan.has_producers = True
        elif attributes & CONTROL:
            scan.has_controls = True
        end = last + 1
        at = after
    scan.end = end
    return at


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

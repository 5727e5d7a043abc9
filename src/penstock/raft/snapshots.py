"""Snapshots: the whole image in a file `END_OFFSET-EPOCH.checkpoint`, beside the log's segments.

A snapshot stands for everything in the log before its end offset. It begins with a header and
ends with a footer: without the footer it was never finished. It is written under another name,
synced, and renamed, so a file with the right name is whole.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.protocol.generated import control_records as controls
from penstock.raft.batches import decode_controls, decode_records, encode_batches, encode_controls
from penstock.raft.voters import DYNAMIC_FROM, Voters, voters_of, voters_record
from penstock.records import control
from penstock.records.batch import HEAD_SIZE, PREFIX_SIZE, crc_of, read_head

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.platform.disk import Disk
    from penstock.records.batch import BatchHead

SUFFIX = ".checkpoint"
PART = ".part"  # the name under which Kafka writes one
BOOTSTRAP = "bootstrap.checkpoint"
PIECE_BYTES = 1 << 20

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")


class CorruptSnapshot(ValueError):
    """A snapshot that does not hold what its name promises."""


class SnapshotId(NamedTuple):
    """Everything before `end` is in it; `epoch` is that of the last record it covers."""

    end: int
    epoch: int

    @property
    def name(self) -> str:
        return f"{self.end:020d}-{self.epoch:010d}{SUFFIX}"


class Snapshot(NamedTuple):
    """What a snapshot says."""

    records: list[Any]
    timestamp: int
    """Of the last batch that it covers."""
    voters: Voters | None
    """The voters, if the log and not the configuration names them."""


def list_snapshots(disk: Disk, directory: str) -> list[SnapshotId]:
    """The finished snapshots in a directory, oldest first."""
    found = (_NAME.match(name) for name in disk.listdir(directory))
    return sorted(SnapshotId(int(m[1]), int(m[2])) for m in found if m is not None)


def remove_unfinished(disk: Disk, directory: str) -> None:
    """Clear what a crash left: parts of snapshots, and ones that were on their way out."""
    for name in disk.listdir(directory):
        if name.endswith((SUFFIX + PART, SUFFIX + ".tmp", SUFFIX + ".deleted")):
            disk.remove(os.path.join(directory, name))


def encode_snapshot(
    records: Iterable[Any], level: int, epoch: int, timestamp: int, now: int, voters: Voters | None
) -> bytes:
    """A snapshot's bytes. `timestamp` is that of the last batch covered."""
    header: list[tuple[int, Any]] = [
        (
            control.SNAPSHOT_HEADER,
            controls.SnapshotHeaderRecord(version=0, last_contained_log_timestamp=timestamp),
        )
    ]
    if voters is not None and voters.kraft_version >= DYNAMIC_FROM:
        header += voter_records(voters)
    out = bytearray(encode_controls(header, 0, epoch, now))
    offset = len(header)
    for batch in encode_batches(records, level, offset, epoch, now, PIECE_BYTES):
        out += batch
        head = read_head(batch)
        offset = head.base_offset + head.last_offset_delta + 1
    footer = (control.SNAPSHOT_FOOTER, controls.SnapshotFooterRecord(version=0))
    out += encode_controls([footer], offset, epoch, now)
    return bytes(out)


def voter_records(voters: Voters) -> list[tuple[int, Any]]:
    """The control records that carry the voters of a dynamic quorum."""
    version = controls.KRaftVersionRecord(version=0, kraft_version=voters.kraft_version)
    return [(control.KRAFT_VERSION, version), (control.KRAFT_VOTERS, voters_record(voters))]


def decode_snapshot(data: bytes) -> Snapshot:
    """What a snapshot says; CorruptSnapshot if it is cut, rotten or not one."""
    records: list[Any] = []
    marks: dict[int, Any] = {}
    try:
        for head, batch in batches_of(data):
            records.extend(decode_records(head, batch))
            marks.update(decode_controls(head, batch))
    except ValueError as error:
        raise CorruptSnapshot(f"the snapshot cannot be read: {error}") from error
    header = marks.get(control.SNAPSHOT_HEADER)
    if header is None or control.SNAPSHOT_FOOTER not in marks:
        raise CorruptSnapshot("the snapshot has no header or no footer: it was never finished")
    voters = None
    if control.KRAFT_VOTERS in marks:
        version = marks.get(control.KRAFT_VERSION)
        level = DYNAMIC_FROM if version is None else version.kraft_version
        voters = voters_of(marks[control.KRAFT_VOTERS], level)
    return Snapshot(records, header.last_contained_log_timestamp, voters)


def batches_of(data: bytes) -> Iterator[tuple[BatchHead, memoryview]]:
    """The batches of a snapshot, one by one; CorruptSnapshot at the first that is not whole."""
    view = memoryview(data)
    at = 0
    while at < len(view):
        if at + HEAD_SIZE > len(view):
            raise CorruptSnapshot(f"a batch is cut at byte {at}")
        head = read_head(view, at)
        end = at + PREFIX_SIZE + head.length
        if head.length < HEAD_SIZE - PREFIX_SIZE or end > len(view):
            raise CorruptSnapshot(f"a batch is cut at byte {at}")
        if crc_of(view, at, end) != head.crc:
            raise CorruptSnapshot(f"the batch at byte {at} fails its checksum")
        yield head, view[at:end]
        at = end


def write_snapshot(disk: Disk, directory: str, snapshot: SnapshotId, data: bytes) -> None:
    """Durably, under its final name only when whole. Blocks: call it in a worker."""
    disk.write_atomic(os.path.join(directory, snapshot.name), data)

"""Are replicas equal? Byte by byte, batch by batch, on the disks of stopped nodes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

METADATA = "__cluster_metadata-0"
WATERMARKS = "replication-offset-checkpoint"
_HEAD = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_DELTA_AT = 23
_HEAD_SIZE = 61


class Batch(bytes):
    """A record batch as it lies on the disk."""

    @property
    def base(self) -> int:
        offset: int = _HEAD.unpack_from(self)[0]
        return offset

    @property
    def end(self) -> int:
        delta: int = _LAST_OFFSET_DELTA.unpack_from(self, _DELTA_AT)[0]
        return self.base + delta + 1


def batches(folder: Path) -> Iterator[Batch]:
    """Everything in a partition's folder, in order; a torn tail is no batch."""
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        at = 0
        while at + _HEAD_SIZE <= len(data):
            _, length = _HEAD.unpack_from(data, at)
            end = at + _HEAD.size + length
            if length < _HEAD_SIZE - _HEAD.size or end > len(data):
                break
            yield Batch(data[at:end])
            at = end


def watermarks(directories: Sequence[Path]) -> dict[str, int]:
    """How far each partition was known to be committed when the node stopped."""
    found: dict[str, int] = {}
    for directory in directories:
        path = directory / WATERMARKS
        if not path.exists():
            continue
        for line in path.read_text().splitlines()[2:]:
            topic, partition, offset = line.rsplit(" ", 2)
            found[f"{topic}-{partition}"] = int(offset)
    return found


def folders(directories: Sequence[Path]) -> dict[str, Path]:
    """Each partition that a node has a log of."""
    return {
        folder.name: folder
        for directory in directories
        for folder in sorted(directory.iterdir())
        if folder.is_dir() and folder.name.rpartition("-")[2].isdigit()
    }


def differences(nodes: Mapping[str, Sequence[Path]], wanted: Sequence[str]) -> Iterator[str]:
    """Where the nodes, given by their log directories, disagree below the lowest watermark."""
    logs = {name: folders(directories) for name, directories in nodes.items()}
    marks = {name: watermarks(directories) for name, directories in nodes.items()}
    for partition in (*wanted, METADATA):
        copies: dict[str, list[Batch]] = {}
        for name, known in logs.items():
            if partition in known:
                copies[name] = list(batches(known[partition]))
            else:
                yield f"{name} has no log of {partition}"
        if not copies:
            continue
        if partition == METADATA:
            end = min((each[-1].end for each in copies.values() if each), default=0)
        else:
            end = min(marks[name].get(partition, 0) for name in copies)
        yield from _compare(partition, copies, end)


def _compare(partition: str, copies: Mapping[str, Sequence[Batch]], end: int) -> Iterator[str]:
    # A snapshot may have let one node drop more of the beginning than another.
    start = max((each[0].base for each in copies.values() if each), default=0)
    shown = {
        name: [batch for batch in each if start <= batch.base < end]
        for name, each in copies.items()
    }
    first_name, first = next(iter(shown.items()))
    if not first and end > start:
        yield f"{first_name} has nothing of {partition} below {end}"
    for name, other in shown.items():
        if other == first:
            continue
        for mine, theirs in zip(first, other, strict=False):
            if mine != theirs:
                yield (
                    f"{partition} differs at offset {mine.base}: {first_name} has "
                    f"{len(mine)} bytes up to {mine.end}, {name} has {len(theirs)} bytes "
                    f"from {theirs.base} up to {theirs.end}"
                )
                break
        else:
            yield (
                f"{partition} has {len(first)} batches below {end} at {first_name}, and "
                f"{len(other)} at {name}"
            )

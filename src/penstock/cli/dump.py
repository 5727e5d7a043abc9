"""The files of a log directory, read without a node: what each one is, and what it holds."""

from __future__ import annotations

import json
import os
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

from penstock.cli.dump_batches import dump_batches, heads_of
from penstock.cli.dump_rows import Dump, Fault, Row, time_text
from penstock.storage import checkpoints, epochs, names
from penstock.storage.producer_snapshot import ProducerRow, decode_snapshot
from penstock.storage.txn_index import AbortedTxn, decode_entries

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")

_OFFSET_CHECKPOINTS = {
    checkpoints.RECOVERY_POINTS,
    checkpoints.LOG_STARTS,
    checkpoints.HIGH_WATERMARKS,
    "cleaner-offset-checkpoint",
}
_ON_THE_WAY = (names.DELETED, names.CLEANED, names.SWAP)


def files_in(path: str) -> Iterator[str]:
    """A file itself, or all files below a directory that can be dumped, in a steady order."""
    if not os.path.isdir(path):
        yield path
        return
    for directory, below, files in os.walk(path):
        below.sort()
        for name in sorted(files):
            if kind_of(name) is not None:
                yield os.path.join(directory, name)


def kind_of(name: str) -> str | None:
    """What a file of this name is; None if it is none of a log's."""
    for suffix in _ON_THE_WAY:
        name = name.removesuffix(suffix)
    if name in _OFFSET_CHECKPOINTS:
        return "offsets"
    if name in (epochs.FILE_NAME, names.PARTITION_METADATA, checkpoints.META_PROPERTIES):
        return name
    if name in ("quorum-state", checkpoints.CLEAN_SHUTDOWN):
        return "json"
    suffix = os.path.splitext(name)[1]
    return suffix if suffix in (*names.SEGMENT_SUFFIXES, names.SNAPSHOT, ".checkpoint") else None


def dump_file(path: str, *, deep: bool) -> Dump | None:
    """What a file holds; None if its name is none that a log directory knows."""
    kind = kind_of(os.path.basename(path))
    if kind is None:
        return None
    if kind in (names.LOG, ".checkpoint"):
        return dump_batches(path, deep=deep)
    return _DUMPERS[kind](path)


def _guarded(rows: Iterable[Row | Fault]) -> Iterator[Row | Fault]:
    """The rows; a file that contradicts its format ends in a fault."""
    try:
        yield from rows
    except ValueError as error:
        yield Fault("file", str(error))


# Indexes


def _offset_index(path: str) -> Dump:
    return Dump("offset index", ("offset", "position"), _offset_rows(path))


def _offset_rows(path: str) -> Iterator[Row | Fault]:
    base = names.offset_of(os.path.basename(path)) or 0
    log = _log_beside(path)
    lasts = None if log is None else {at: head.last_offset for at, head in heads_of(log)}
    before = (-1, -1)
    for offset, position in _entries(path, _OFFSET_ENTRY):
        yield {"offset": base + offset, "position": position}
        where = f"entry {base + offset} -> {position}"
        if offset <= before[0] or position <= before[1]:
            yield Fault(where, f"entries do not grow: the one before is {before}")
        elif lasts is not None and position not in lasts:
            yield Fault(where, "no batch begins at this position of the log")
        elif lasts is not None and lasts[position] != base + offset:
            yield Fault(where, f"the batch there ends with offset {lasts[position]}")
        before = (offset, position)
    yield from _torn(path, _OFFSET_ENTRY)


def _time_index(path: str) -> Dump:
    return Dump("time index", ("time", "offset"), _time_rows(path))


def _time_rows(path: str) -> Iterator[Row | Fault]:
    base = names.offset_of(os.path.basename(path)) or 0
    log = _log_beside(path)
    heads = [] if log is None else [head for _, head in heads_of(log)]
    lasts = [head.last_offset for head in heads]
    before = -1
    for timestamp, offset in _entries(path, _TIME_ENTRY):
        yield {"time": time_text(timestamp), "timestamp": timestamp, "offset": base + offset}
        where = f"entry {timestamp} -> {base + offset}"
        if timestamp <= before:
            yield Fault(where, f"times do not grow: the one before is {before}")
        at = bisect_left(lasts, base + offset)
        if log is not None and at == len(lasts):
            yield Fault(where, "the log holds no such offset")
        elif heads and heads[at].max_timestamp < timestamp:
            yield Fault(where, "the batch with this offset is older")
        before = timestamp
    yield from _torn(path, _TIME_ENTRY)


def _entries(path: str, entry: struct.Struct) -> Iterator[tuple[int, int]]:
    """Whole entries. An index in use is a file of its full size whose rest is zeros."""
    chunk_size = 4096 * entry.size
    with open(path, "rb") as file:
        while chunk := file.read(chunk_size):
            used = chunk.rstrip(b"\0")
            whole = min(-(-len(used) // entry.size), len(chunk) // entry.size) * entry.size
            yield from entry.iter_unpack(chunk[:whole])
            if whole < chunk_size:
                return


def _torn(path: str, entry: struct.Struct) -> Iterator[Fault]:
    rest = os.path.getsize(path) % entry.size
    if rest:
        yield Fault("file", f"{rest} bytes at the end are no whole entry")


def _log_beside(path: str) -> str | None:
    """The segment that an index belongs to, if it is there."""
    stem, _, suffix = os.path.basename(path).partition(".")
    mark = suffix.partition(".")[2]
    log = os.path.join(os.path.dirname(path), f"{stem}.log" + (f".{mark}" if mark else ""))
    return log if os.path.exists(log) else None


def _txn_index(path: str) -> Dump:
    rows = (transaction._asdict() for transaction in decode_entries(_read(path)))
    return Dump("aborted transactions", AbortedTxn._fields, _guarded(rows))


# State and checkpoints


def _producers(path: str) -> Dump:
    def rows() -> Iterator[Row]:
        for row in decode_snapshot(_read(path)):
            yield {**row._asdict(), "time": time_text(row.timestamp)}

    return Dump("producers", (*ProducerRow._fields, "time"), _guarded(rows()))


def _epochs(path: str) -> Dump:
    def rows() -> Iterator[Row]:
        for epoch, start in epochs.parse_epochs(_text(path)):
            yield {"epoch": epoch, "start_offset": start}

    return Dump("leader epochs", ("epoch", "start_offset"), _guarded(rows()))


def _offsets(path: str) -> Dump:
    def rows() -> Iterator[Row]:
        for partition, offset in checkpoints.parse_offsets(_text(path)).items():
            yield {**partition._asdict(), "offset": offset}

    return Dump("offsets", ("topic", "partition", "offset"), _guarded(rows()))


def _properties(path: str) -> Dump:
    fields = checkpoints.parse_properties(_text(path))
    return _settings("properties", fields.items())


def _partition_metadata(path: str) -> Dump:
    lines = [line.partition(": ") for line in _text(path).splitlines()]
    return _settings("partition", [(key, value) for key, _, value in lines])


def _json(path: str) -> Dump:
    def rows() -> Iterator[Row]:
        for key, value in json.loads(_text(path) or "{}").items():
            yield {"key": key, "value": value}

    return Dump("state", ("key", "value"), _guarded(rows()))


def _settings(kind: str, pairs: Iterable[tuple[str, str]]) -> Dump:
    return Dump(kind, ("key", "value"), ({"key": key, "value": value} for key, value in pairs))


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _text(path: str) -> str:
    return _read(path).decode(errors="replace")


_DUMPERS: dict[str, Callable[[str], Dump]] = {
    names.INDEX: _offset_index,
    names.TIME_INDEX: _time_index,
    names.TXN_INDEX: _txn_index,
    names.SNAPSHOT: _producers,
    epochs.FILE_NAME: _epochs,
    "offsets": _offsets,
    checkpoints.META_PROPERTIES: _properties,
    names.PARTITION_METADATA: _partition_metadata,
    "json": _json,
}

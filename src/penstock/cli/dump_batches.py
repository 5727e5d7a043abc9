"""Segments and metadata snapshots: batches with their heads checked, and records if wanted."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.cli.dump_rows import Dump, Fault, Row, time_text
from penstock.protocol.message import SECRETS, Part
from penstock.protocol.primitives import ProtocolError
from penstock.records.batch import HEAD_SIZE, MAGIC, BatchHead, crc_of, read_head
from penstock.records.compression import CODEC_NAMES
from penstock.records.control import control_type
from penstock.records.record import Record, iterate

BATCH_COLUMNS = (
    "offsets", "position", "bytes", "records", "time", "codec", "epoch", "producer", "flags",
)  # fmt: skip
RECORD_COLUMNS = ("offset", "time", "key", "value", "headers")

_CONTROL_KINDS = {
    0: ("abort", "EndTxnMarker"),
    1: ("commit", "EndTxnMarker"),
    2: ("leader change", "LeaderChangeMessage"),
    3: ("snapshot header", "SnapshotHeaderRecord"),
    4: ("snapshot footer", "SnapshotFooterRecord"),
    5: ("kraft version", "KRaftVersionRecord"),
    6: ("kraft voters", "VotersRecord"),
    # Penstock's own, about delayed records: `storage.delay_batches` says what is in them.
    20560: ("parked", ""),
    20561: ("delivered", ""),
    20562: ("cancelled", ""),
    20563: ("moved", ""),
}

Decoder = Callable[[Record], tuple[object, object]]
"""Key and value of a record as people or JSON want them."""


def dump_batches(path: str, *, deep: bool) -> Dump:
    """The batches of a `.log` or `.checkpoint` file, or all their records."""
    if deep:
        decode = _decoder_of(path)
        return Dump("records", RECORD_COLUMNS, _records(path, decode))
    return Dump("batches", BATCH_COLUMNS, _batches(path))


def heads_of(path: str) -> Iterator[tuple[int, BatchHead]]:
    """Position and head of each whole batch, for holding an index against; stops at a fault."""
    with _mapped(path) as view:
        for position, found, _ in _walk(view):
            if isinstance(found, Fault):
                return
            yield position, found


def _batches(path: str) -> Iterator[Row | Fault]:
    with _mapped(path) as view:
        for position, found, fault in _walk(view):
            if isinstance(found, Fault):
                yield found
                return
            yield _batch_row(position, found)
            if fault is not None:
                yield fault


def _records(path: str, decode: Decoder) -> Iterator[Row | Fault]:
    with _mapped(path) as view:
        for position, found, fault in _walk(view):
            if isinstance(found, Fault):
                yield found
                return
            if fault is not None:
                yield fault
            try:
                for record in iterate(view, position, head=found):
                    yield _record_row(record, found, decode)
            except ValueError as error:
                yield Fault(f"position {position}", f"records cannot be read: {error}")


@contextmanager
def _mapped(path: str) -> Iterator[memoryview]:
    """A file's bytes without reading them all into memory."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
    # Never closed by hand: a row may hold a view of it still, and the last one frees it.
    yield memoryview(data)


def _walk(view: memoryview) -> Iterator[tuple[int, BatchHead | Fault, Fault | None]]:
    """Each batch with a fault of its own if it has one; a `Fault` for bytes that are no batch."""
    position, end_offset = 0, -1
    while position < len(view):
        head = _head_at(view, position)
        if isinstance(head, Fault):
            yield position, head, None
            return
        end = position + head.size
        yield position, head, _fault_of(view, position, end, head, end_offset)
        position, end_offset = end, head.end_offset


def _head_at(view: memoryview, position: int) -> BatchHead | Fault:
    where = f"position {position}"
    remains = len(view) - position
    if remains < HEAD_SIZE:
        return Fault(where, f"{remains} bytes at the end are no batch")
    head = read_head(view, position)
    if head.length == 0 and not bytes(view[position:]).strip(b"\0"):
        return Fault(where, f"{remains} zero bytes at the end are no batches")
    if head.magic != MAGIC:
        return Fault(where, f"a batch of magic {head.magic}; only {MAGIC} can be read")
    if head.size < HEAD_SIZE or head.size > remains:
        return Fault(where, f"a batch claims {head.size} bytes where {remains} remain")
    return head


def _fault_of(
    view: memoryview, position: int, end: int, head: BatchHead, end_offset: int
) -> Fault | None:
    where = f"position {position}, offset {head.base_offset}"
    if crc_of(view, position, end) != head.crc:
        return Fault(where, "the checksum does not fit the content")
    if head.base_offset < end_offset:
        return Fault(where, f"offsets do not grow: the batch before ends at {end_offset}")
    if head.last_offset_delta < 0 or head.count < 0 or head.count > head.last_offset_delta + 1:
        return Fault(where, f"{head.count} records in {head.last_offset_delta + 1} offsets")
    return None


def _batch_row(position: int, head: BatchHead) -> Row:
    names = ("transactional", "control", "append_time", "delete_horizon")
    marks = (
        head.is_transactional,
        head.is_control,
        head.is_append_time,
        head.delete_horizon is not None,
    )
    codec = head.compression
    producer = f"{head.producer_id}:{head.producer_epoch}:{head.base_sequence}"
    return {
        "offsets": f"{head.base_offset}-{head.last_offset}",
        "base_offset": head.base_offset,
        "last_offset": head.last_offset,
        "position": position,
        "bytes": head.size,
        "records": head.count,
        "time": time_text(head.max_timestamp),
        "base_timestamp": head.base_timestamp,
        "max_timestamp": head.max_timestamp,
        "codec": CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else str(codec),
        "epoch": head.leader_epoch,
        "producer": producer if head.producer_id >= 0 else None,
        "producer_id": head.producer_id,
        "producer_epoch": head.producer_epoch,
        "base_sequence": head.base_sequence,
        "crc": head.crc,
        "flags": [name for name, mark in zip(names, marks, strict=True) if mark],
    }


def _record_row(record: Record, head: BatchHead, decode: Decoder) -> Row:
    if head.is_control:
        key, value = _control(record)
    else:
        key, value = decode(record)
    return {
        "offset": record.offset,
        "time": time_text(record.timestamp),
        "timestamp": record.timestamp,
        "key": key,
        "value": value,
        "headers": [f"{name}={_plain(data)}" for name, data in record.headers],
        "control": head.is_control,
    }


# Keys and values


def _decoder_of(path: str) -> Decoder:
    """How the records in a file are to be shown, by the topic whose directory it lies in."""
    from penstock.protocol import record_frames

    directory = os.path.basename(os.path.dirname(os.path.abspath(path)))
    topic = directory.rpartition("-")[0]
    if path.endswith(".checkpoint"):
        topic = "__cluster_metadata"  # whose snapshots they are; the first lies beside its log
    frames = {
        "__consumer_offsets": record_frames.GROUP,
        "__transaction_state": record_frames.TRANSACTION,
        "__share_group_state": record_frames.SHARE,
    }
    if topic in frames:
        return lambda record: _coordinator(record, frames[topic])
    if topic == "__cluster_metadata":
        return _metadata
    return lambda record: (_plain(record.key), _plain(record.value))


def _control(record: Record) -> tuple[object, object]:
    from penstock.protocol.generated import control_records

    kind = control_type(record.key or b"")
    name, message = _CONTROL_KINDS.get(kind, (f"control {kind}", ""))
    value = bytes(record.value or b"")
    try:
        # The version comes first; most of these messages count it among their fields.
        cls = getattr(control_records, message)
        at = 0 if "version" in cls.__slots__ else 2
        return name, _fields(cls.read(value, int.from_bytes(value[:2], "big"), at)[0])
    except (AttributeError, ProtocolError):
        return name, _plain(record.value)


def _metadata(record: Record) -> tuple[object, object]:
    from penstock.protocol.record_frames import read_frame

    try:
        message, version = read_frame(record.value or b"")
    except ProtocolError:
        return None, _plain(record.value)
    return f"{type(message).__name__} v{version}", _fields(message)


def _coordinator(record: Record, frames: Any) -> tuple[object, object]:
    try:
        key = frames.read_key(record.key or b"")
        shown = {type(key).__name__: _fields(key)}
        if record.value is None:
            return shown, None
        value, _ = frames.read_value(key.API_KEY, record.value)
    except ProtocolError:
        return _plain(record.key), _plain(record.value)
    return shown, _fields(value)


def _plain(data: bytes | memoryview | None) -> str | None:
    """Bytes as text where they are text, and as hexadecimal digits where they are not."""
    if data is None:
        return None
    raw = bytes(data)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "0x" + raw.hex()
    return text if text.isprintable() or not raw else "0x" + raw.hex()


def _fields(value: object) -> object:
    if isinstance(value, Part):
        return {
            name: "[hidden]" if name in SECRETS else _fields(getattr(value, name))
            for name in value.__slots__
        }
    if isinstance(value, list):
        return [_fields(one) for one in value]
    if isinstance(value, bytes | memoryview) and len(value) == 16:
        from penstock.model.ids import uuid_text

        return uuid_text(bytes(value))
    if isinstance(value, bytes | memoryview):
        return _plain(value)
    return value

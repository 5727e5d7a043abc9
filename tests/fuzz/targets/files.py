"""The small files beside a log: what a crash, a bad disk or another program may leave there."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

from penstock.model.ids import TopicPartition
from penstock.records.checksum import crc32c
from penstock.storage.checkpoints import (
    CorruptCheckpoint,
    format_offsets,
    parse_offsets,
    parse_properties,
)
from penstock.storage.epochs import CorruptEpochs, format_epochs, parse_epochs
from penstock.storage.index import CorruptIndex, SegmentIndex
from penstock.storage.producer_snapshot import CorruptSnapshot, ProducerRow, encode_snapshot
from penstock.storage.producers import Producers
from penstock.storage.txn_index import (
    AbortedTxn,
    CorruptTxnIndex,
    aborted_between,
    check_index,
    encode_entries,
    size_below,
)
from tests.fuzz.target import Target

LOG_SIZE = 1 << 20


def checkpoint(data: bytes) -> None:
    text = data.decode(errors="replace")
    try:
        offsets = parse_offsets(text)
    except CorruptCheckpoint:
        return
    assert parse_offsets(format_offsets(offsets)) == offsets


def epochs(data: bytes) -> None:
    try:
        entries = parse_epochs(data.decode(errors="replace"))
    except CorruptEpochs:
        return
    assert parse_epochs(format_epochs(entries)) == entries


def properties(data: bytes) -> None:
    """`meta.properties`: any text says something, if only nothing."""
    assert all(isinstance(key, str) for key in parse_properties(data.decode(errors="replace")))


def index(data: bytes) -> None:
    """An offset index and, behind a length, a time index."""
    if len(data) < 2:
        return
    split = 2 + int.from_bytes(data[:2], "big")
    offset_data, time_data = data[2:split], data[split:]
    try:
        found = SegmentIndex.parse(offset_data, time_data, LOG_SIZE)
    except CorruptIndex:
        return
    assert found.offset_bytes(0, len(found.offsets)) == offset_data
    assert found.time_bytes(0, len(found.times)) == time_data
    assert 0 <= found.position_before(1000) < LOG_SIZE


def transactions(data: bytes) -> None:
    try:
        check_index(data, 0)
        aborted_between(data, 10, 20)
        assert 0 <= size_below(data, 50) <= len(data)
    except CorruptTxnIndex:
        pass  # that is the answer


def producers(data: bytes) -> None:
    """Producers of a partition, with a true checksum, since only that lets anything pass."""
    sealed = data[:2] + struct.pack(">I", crc32c(memoryview(data)[6:])) + data[6:]
    loaded = Producers()
    try:
        loaded.load(sealed, 1000, 10**15)
    except CorruptSnapshot:
        return
    again = Producers()
    again.load(loaded.snapshot(), 1000, 10**15)
    assert again.snapshot() == loaded.snapshot()


def _producers() -> Iterator[bytes]:
    rows = [ProducerRow(7, 1, 3, 10, 2, 900, 0, -1), ProducerRow(8, 0, 2**31 - 1, 11, 0, 1, 5, 4)]
    yield encode_snapshot(rows)
    yield encode_snapshot([])


def _index() -> Iterator[bytes]:
    yield b"\x00\x10" + struct.pack(">iiii", 5, 100, 9, 300) + struct.pack(">qi", 1000, 5)
    yield bytes(2)


def _given(*data: bytes) -> Callable[[], Iterable[bytes]]:
    return lambda: data


TARGETS = [
    Target(
        "checkpoints",
        checkpoint,
        _given(
            format_offsets({TopicPartition("a", 0): 5, TopicPartition("b", 7): 2**62}).encode(),
            b"0\n1\na 0 " + b"9" * 5000,
            b"0\n-1\n",
        ),
    ),
    Target("epochs", epochs, _given(format_epochs([(0, 0), (3, 100)]).encode(), b"0\n0\n")),
    Target("meta_properties", properties, _given(b"#\nnode.id=1\ncluster.id=a\\=b\n", b"=\n\\")),
    Target("indexes", index, _index),
    Target(
        "txn_indexes",
        transactions,
        _given(encode_entries([AbortedTxn(7, 1, 5, 2), AbortedTxn(8, 6, 15, 16)])),
    ),
    Target("producer_snapshots", producers, _producers),
]

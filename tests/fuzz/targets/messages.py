"""Every message in every version: requests, responses, and records of logs.

The first two bytes choose the message, the third its version, and the rest are its body. Seeds are
the bytes that Apache's own code wrote (tests/data/protocol).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from penstock.protocol.message import Message
from penstock.protocol.primitives import ProtocolError
from penstock.protocol.record_frames import GROUP, SHARE, TRANSACTION, read_frame, write_frame
from tests.fuzz.target import Target
from tests.unit.protocol.catalogue import CORPUS, catalogue

COORDINATORS = (GROUP, TRANSACTION, SHARE)


@functools.cache
def classes() -> list[type[Message]]:
    """All messages, always in the same order."""
    return [catalogue()[name].cls for name in sorted(catalogue())]


def decode(data: bytes) -> None:
    """A body is refused by name, or says the same after it was written and read again."""
    if len(data) < 3:
        return
    cls = classes()[int.from_bytes(data[:2], "big") % len(classes())]
    version = cls.VERSIONS[data[2] % len(cls.VERSIONS)]
    try:
        message, end = cls.read(data, version, 3)
    except ProtocolError:
        return
    assert end <= len(data)
    assert_same_again(message, version)


def assert_same_again(message: Message, version: int) -> None:
    """Bytes may differ, since tagged fields that nobody knows are dropped; what they say may not.

    Compared as bytes: a float that is not a number is not equal to itself.
    """
    raw = message.encode(version)
    again, end = type(message).read(raw, version)
    assert end == len(raw)
    assert again.encode(version) == raw


def apache_bodies(name: str) -> Iterator[tuple[int, bytes]]:
    """(version, body) of a message as Apache's code wrote it."""
    for each, version, body in _corpus():
        if each == name:
            yield version, body


@functools.cache
def _corpus() -> list[tuple[str, int, bytes]]:
    rows = (line.split() for line in CORPUS.read_text().splitlines())
    return [(row[0], int(row[1]), bytes.fromhex(row[3])) for row in rows if _is_message(row)]


def _is_message(row: list[str]) -> bool:
    return len(row) == 4 and row[2] in ("full", "nulls", "bare")


def _frames() -> Iterator[tuple[str, bytes]]:
    rows = (line.split() for line in CORPUS.read_text().splitlines())
    return ((row[1], bytes.fromhex(row[3])) for row in rows if row[0] == "frame")


def _bodies() -> Iterator[bytes]:
    order = sorted(catalogue())
    for name, version, body in _corpus():
        versions = catalogue()[name].cls.VERSIONS
        yield order.index(name).to_bytes(2, "big") + bytes((versions.index(version),)) + body


def metadata_record(data: bytes) -> None:
    """A record of the metadata log, as nodes read it from each other and from their disks."""
    try:
        record, version = read_frame(data)
    except ProtocolError:
        return
    assert read_frame(write_frame(record, version))[0].encode(version) == record.encode(version)


def _metadata_frames() -> Iterator[bytes]:
    return (data for name, data in _frames() if name.endswith("Record"))


def coordinator_record(data: bytes) -> None:
    """A key of some coordinator's topic, and the value that belongs to it behind it.

    One byte chooses the coordinator, one says how long the key is.
    """
    if len(data) < 2:
        return
    frames = COORDINATORS[data[0] % len(COORDINATORS)]
    end = 2 + data[1]
    try:
        key = frames.read_key(data[2:end])
        assert frames.read_key(frames.write_key(key)) == key
        value, version = frames.read_value(key.API_KEY, data[end:])
    except ProtocolError:
        return
    assert_same_again(value, version)


def _coordinator_records() -> Iterator[bytes]:
    for number, frames in enumerate(COORDINATORS):
        for kind, cls in sorted(frames._keys.items()):
            key = frames.write_key(cls())
            value = frames._values.get(kind)
            for version in value.VERSIONS if value is not None else ():
                told = frames.write_value(value(), version)  # type: ignore[misc]
                yield bytes((number, len(key))) + key + told
                name = value.__name__  # type: ignore[union-attr]
                for _, body in (it for it in apache_bodies(name) if it[0] == version):
                    yield bytes((number, len(key))) + key + version.to_bytes(2, "big") + body


TARGETS = [
    Target("messages", decode, _bodies),
    Target("metadata_records", metadata_record, _metadata_frames),
    Target("coordinator_records", coordinator_record, _coordinator_records),
]

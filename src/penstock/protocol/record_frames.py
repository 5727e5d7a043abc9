"""How records of the metadata log and of coordinators say what they are.

A metadata record is a value: frame version, record type and version, as varints, then the message.
A coordinator's record is a key and a value: the key starts with its type, the value with its
version, in 16 bits each.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from struct import Struct
from types import ModuleType
from typing import cast

from penstock.protocol.message import Message
from penstock.protocol.primitives import Buffer, ProtocolError, read_uvarint, write_uvarint

FRAME_VERSION = 1
_PREFIX = Struct(">h")


class UnknownRecordType(ProtocolError):
    """A record that a newer version may have written: what to do with it is the reader's choice."""


def _module(name: str) -> ModuleType:
    return import_module(f"penstock.protocol.generated.{name}")


def _messages(module: ModuleType, suffix: str) -> dict[int, type[Message]]:
    return {
        it.API_KEY: it
        for name, it in vars(module).items()
        if name.endswith(suffix) and isinstance(it, type) and issubclass(it, Message)
    }


def _whole(cls: type[Message], data: Buffer, version: int, at: int) -> Message:
    message, end = cls.read(data, version, at)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes follow a {cls.__name__}")
    return message


class _MetadataRecords:
    @cached_property
    def classes(self) -> dict[int, type[Message]]:
        return _messages(_module("metadata_records"), "Record")


_metadata = _MetadataRecords()


def read_frame(data: Buffer) -> tuple[Message, int]:
    """The metadata record in the value `data`, and the version that it was written in."""
    view = memoryview(data)
    try:
        frame_version, at = read_uvarint(view, 0)
        key, at = read_uvarint(view, at)
        version, at = read_uvarint(view, at)
    except IndexError:
        raise ProtocolError("a metadata record is cut short") from None
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"metadata frame version {frame_version} is not {FRAME_VERSION}")
    cls = _metadata.classes.get(key)
    if cls is None:
        raise UnknownRecordType(f"there is no metadata record of type {key}")
    return _whole(cls, view, version, at), version


def write_frame(record: Message, version: int) -> bytes:
    """The value that carries a metadata record."""
    out = bytearray((FRAME_VERSION,))
    write_uvarint(out, record.API_KEY)
    write_uvarint(out, version)
    record.write(version, out)
    return bytes(out)


class CoordinatorFrames:
    """Keys and values of one coordinator's topic."""

    def __init__(self, module: str) -> None:
        self._name = module

    @cached_property
    def _keys(self) -> dict[int, type[Message]]:
        return _messages(_module(self._name), "Key")

    @cached_property
    def _values(self) -> dict[int, type[Message]]:
        return _messages(_module(self._name), "Value")

    def read_key(self, data: Buffer) -> Message:
        """The key; its API_KEY is the type of the record."""
        kind = _prefix(data)
        cls = self._keys.get(kind)
        if cls is None:
            raise UnknownRecordType(f"there is no record of type {kind} in {self._name}")
        # The prefix is the record's type: keys have one layout, which never changes.
        return _whole(cls, data, 0, 2)

    def read_value(self, kind: int, data: Buffer) -> tuple[Message, int]:
        """The value that belongs to a key of type `kind`, and its version."""
        cls = self._values.get(kind)
        if cls is None:
            raise UnknownRecordType(f"there is no record of type {kind} in {self._name}")
        version = _prefix(data)
        return _whole(cls, data, version, 2), version

    def write_key(self, key: Message) -> bytes:
        """The bytes of a record's key."""
        out = bytearray(_PREFIX.pack(key.API_KEY))
        key.write(0, out)
        return bytes(out)

    def write_value(self, value: Message, version: int) -> bytes:
        """The bytes of a record's value."""
        out = bytearray(_PREFIX.pack(version))
        value.write(version, out)
        return bytes(out)


def _prefix(data: Buffer) -> int:
    if len(data) < 2:
        raise ProtocolError("a coordinator record is cut short")
    return cast(int, _PREFIX.unpack_from(data, 0)[0])


GROUP = CoordinatorFrames("group_records")
SHARE = CoordinatorFrames("share_records")
TRANSACTION = CoordinatorFrames("transaction_records")

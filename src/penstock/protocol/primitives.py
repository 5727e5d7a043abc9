"""The smallest pieces of Kafka's wire format, and the error that says a peer got them wrong.

Generated codecs inline the common cases and come here for the rest. Readers take a view and a
position and give a value and the position behind it; writers append to a bytearray.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct, pack, unpack_from
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")


class ProtocolError(ValueError):
    """Bytes that are no message, or a message that its version cannot carry."""


class Splice(Protocol):
    """Bytes that stay where they are, such as a slice of a file, until they are sent."""

    @property
    def size(self) -> int:
        """How many bytes the splice stands for."""


Buffer = bytes | bytearray | memoryview
Splices = list[tuple[int, Splice]]
"""What to insert into an encoded message, and before which of its bytes, in rising order."""

BUFFERS: Final = (memoryview, bytes, bytearray)
ZERO_UUID: Final = bytes(16)

STRING_SIZE_MAX: Final = 0x7FFF
"""In bytes. A compact length could say more, but Kafka neither reads nor writes it."""

UNKNOWN_TAGS_MAX: Final = 1000
"""In one struct. A later version may have a few; half a megabyte of them, which whoever has not
logged in may send, would hold the node up for a tenth of a second."""

STRINGS_MAX: Final = 100_000
"""In one array. No list of names is as long, and to read a million of them takes a second."""

FRESH: Any = object()
"""The default of a field that starts as an empty list or struct: each message gets its own."""

new: Callable[[type[T]], T] = object.__new__

# Lists of int32 (replicas, in-sync replicas, partitions) are short and everywhere.
INT32S_SHORT: Final = 16
UNPACK_INT32S: Final = tuple(Struct(f">{n}i").unpack_from for n in range(INT32S_SHORT))
PACK_INT32S: Final = tuple(Struct(f">{n}i").pack for n in range(INT32S_SHORT))


def cut_short(what: str) -> ProtocolError:
    """A length or count promises more bytes than the message has left."""
    return ProtocolError(f"{what} reaches beyond the end of the message")


def too_long(what: str) -> ProtocolError:
    """A string of more than 32767 bytes."""
    return ProtocolError(f"{what} is longer than {STRING_SIZE_MAX} bytes")


def null_refused(what: str) -> ProtocolError:
    """A null where this version of the message allows none."""
    return ProtocolError(f"{what} must not be null in this version")


def no_place(what: str) -> ProtocolError:
    """A field is set that the version to be written does not have, and may not be dropped."""
    return ProtocolError(f"{what} is set, but this version has no place for it")


def wrong_size(what: str) -> ProtocolError:
    """A tagged field's declared size is not the size of its value."""
    return ProtocolError(f"the tagged field {what} does not have the size that it declares")


# -- varints ------------------------------------------------------------------------------------


def read_uvarint(view: memoryview, at: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits in five bytes."""
    byte = view[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    byte = view[at + 1]
    if byte < 0x80:  # written out up to here: the length of a batch usually takes two bytes
        return value | byte << 7, at + 2
    value |= (byte & 0x7F) << 7
    for place, shift in ((2, 14), (3, 21), (4, 28)):
        byte = view[at + place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + place + 1
    raise ProtocolError("a varint is longer than five bytes")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append `value` in seven bits per byte, lowest first."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def uvarint_size(value: int) -> int:
    """How many bytes `write_uvarint` appends for `value`."""
    return max(1, (value.bit_length() + 6) // 7)


def read_varint(view: memoryview, at: int) -> tuple[int, int]:
    """A signed 32-bit varint in zigzag form."""
    raw, at = read_uvarint(view, at)
    return (raw >> 1) ^ -(raw & 1), at


def write_varint(out: bytearray, value: int) -> None:
    """Append a signed 32-bit number in zigzag form: small magnitudes stay short."""
    write_uvarint(out, (value << 1) ^ (value >> 31))


def read_varlong(view: memoryview, at: int) -> tuple[int, int]:
    """A signed 64-bit varint in zigzag form, of at most ten bytes."""
    raw = 0
    for shift in range(0, 70, 7):
        byte = view[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at
    raise ProtocolError("a varlong is longer than ten bytes")


def write_varlong(out: bytearray, value: int) -> None:
    """Append a signed 64-bit number in zigzag form."""
    write_uvarint(out, (value << 1) ^ (value >> 63))


# -- strings and bytes --------------------------------------------------------------------------

_int16 = Struct(">h")
_int32 = Struct(">i")


def _slice(view: memoryview, at: int, size: int) -> memoryview:
    if size > len(view) - at:
        raise cut_short("a string, or a run of bytes,")
    return view[at : at + size]


def read_string(view: memoryview, at: int) -> tuple[str | None, int]:
    """A string with a 16-bit length. Like Kafka, bad UTF-8 is replaced rather than refused."""
    (size,) = _int16.unpack_from(view, at)
    at += 2
    if size < 0:
        return None, at
    return str(_slice(view, at, size), "utf-8", "replace"), at + size


def read_compact_string(view: memoryview, at: int) -> tuple[str | None, int]:
    """A string with a varint length; zero is null."""
    size, at = read_uvarint(view, at)
    if size == 0:
        return None, at
    if size > STRING_SIZE_MAX + 1:
        raise too_long("a string")
    return str(_slice(view, at, size - 1), "utf-8", "replace"), at + size - 1


def read_bytes(view: memoryview, at: int) -> tuple[memoryview | None, int]:
    """Bytes with a 32-bit length, as a slice of the view."""
    (size,) = _int32.unpack_from(view, at)
    at += 4
    if size < 0:
        return None, at
    return _slice(view, at, size), at + size


def read_compact_bytes(view: memoryview, at: int) -> tuple[memoryview | None, int]:
    """Bytes with a varint length, as a slice of the view; zero is null."""
    size, at = read_uvarint(view, at)
    if size == 0:
        return None, at
    return _slice(view, at, size - 1), at + size - 1


def write_string(out: bytearray, value: str | None) -> None:
    """Append a string with a 16-bit length."""
    if value is None:
        out += b"\xff\xff"
        return
    raw = value.encode()
    if len(raw) > STRING_SIZE_MAX:
        raise too_long("a string")
    out += _int16.pack(len(raw))
    out += raw


def write_compact_string(out: bytearray, value: str | None) -> None:
    """Append a string with a varint length."""
    if value is None:
        out.append(0)
        return
    raw = value.encode()
    if len(raw) > STRING_SIZE_MAX:
        raise too_long("a string")
    write_uvarint(out, len(raw) + 1)
    out += raw


def write_bytes(out: bytearray, value: Buffer | None) -> None:
    """Append bytes with a 32-bit length."""
    if value is None:
        out += b"\xff\xff\xff\xff"
        return
    out += _int32.pack(len(value))
    out += value


def write_compact_bytes(out: bytearray, value: Buffer | None) -> None:
    """Append bytes with a varint length."""
    if value is None:
        out.append(0)
        return
    write_uvarint(out, len(value) + 1)
    out += value


# -- arrays of primitives -----------------------------------------------------------------------
# The caller has read the count; the count is checked against the bytes that remain first, so
# that a count alone can never make us allocate.


def read_numbers(view: memoryview, at: int, count: int, code: str, width: int) -> list[Any]:
    """`count` numbers of `width` bytes whose struct code is `code`."""
    if count * width > len(view) - at:
        raise cut_short("an array")
    if code == "i" and count < INT32S_SHORT:
        return list(UNPACK_INT32S[count](view, at))
    return list(unpack_from(f">{count}{code}", view, at))


def read_uuids(view: memoryview, at: int, count: int) -> list[bytes]:
    """`count` uuids of 16 bytes."""
    if count * 16 > len(view) - at:
        raise cut_short("an array")
    return [bytes(view[start : start + 16]) for start in range(at, at + count * 16, 16)]


def read_strings(view: memoryview, at: int, count: int) -> tuple[list[str], int]:
    """`count` strings, none of them null."""
    if count * 2 > len(view) - at:
        raise cut_short("an array")
    if count > STRINGS_MAX:
        raise ProtocolError(f"{count} strings in an array at once")
    values = []
    for _ in range(count):
        value, at = read_string(view, at)
        if value is None:
            raise null_refused("a string in an array")
        values.append(value)
    return values, at


def read_compact_strings(view: memoryview, at: int, count: int) -> tuple[list[str], int]:
    """`count` compact strings, none of them null."""
    if count > len(view) - at:
        raise cut_short("an array")
    if count > STRINGS_MAX:
        raise ProtocolError(f"{count} strings in an array at once")
    values = []
    for _ in range(count):
        value, at = read_compact_string(view, at)
        if value is None:
            raise null_refused("a string in an array")
        values.append(value)
    return values, at


def write_numbers(out: bytearray, values: Sequence[int], code: str) -> None:
    """Append numbers whose struct code is `code`, without a count."""
    count = len(values)
    if code == "i" and count < INT32S_SHORT:
        out += PACK_INT32S[count](*values)
    else:
        out += pack(f">{count}{code}", *values)


def skip_tags(view: memoryview, at: int, count: int) -> int:
    """The position behind `count` tagged fields that nobody here knows."""
    if count > UNKNOWN_TAGS_MAX:
        raise ProtocolError(f"{count} tagged fields of a kind that nobody here knows")
    for _ in range(count):
        _, at = read_uvarint(view, at)
        size, at = read_uvarint(view, at)
        at += size
        if at > len(view):
            raise cut_short("a tagged field")
    return at


def write_records(out: bytearray, records: Buffer | Splice, splices: Splices | None) -> None:
    """Append records, or note where a splice belongs; the length has been written before."""
    if isinstance(records, BUFFERS):
        out += records
    elif splices is None:
        raise ProtocolError("records stay in a file, but nobody collects splices here")
    elif records.size:
        splices.append((len(out), records))

"""Records as lines, and lines as records: the forms that `produce` reads and `consume` writes.

What `consume` writes in a form, `produce` reads back in the same form: text as long as the bytes
hold no newline, and the other forms always.
"""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

LINE_BYTES_MAX = 64 * 1024 * 1024

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1

Headers = list[tuple[str, bytes | None]]


class Form(StrEnum):
    """How a record looks as a line."""

    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"


class Record(NamedTuple):
    """What a line says of a record; None where it says nothing."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = []
    partition: int | None = None
    timestamp: int | None = None


class BadLine(ValueError):
    """A line that is no record; the message says why."""


# Lines to records.


def record_of(line: bytes, form: Form, separator: bytes | None) -> Record:
    """The record that a line, without its newline, stands for; `BadLine` if it is none."""
    if form is Form.JSON:
        return _record_of_json(line)
    key: bytes | None = None
    if separator is not None:
        before, found, after = line.partition(separator)
        if not found:
            raise BadLine(f"there is no {separator!r} between key and value")
        key, line = _decoded(before, form), after
    return Record(_decoded(line, form), key)


def _decoded(text: bytes, form: Form) -> bytes:
    try:
        if form is Form.HEX:
            return bytes.fromhex(text.decode("ascii"))
        if form is Form.BASE64:
            return base64.b64decode(text.strip(), validate=True)
    except (ValueError, binascii.Error) as error:
        raise BadLine(f"this is not {form.value}: {error}") from None
    return text


_FIELDS = {
    "key": "key",
    "key_base64": "key",
    "key_hex": "key",
    "value": "value",
    "value_base64": "value",
    "value_hex": "value",
    "headers": "headers",
    "partition": "partition",
    "timestamp": "timestamp",
    "offset": "",  # `consume` tells it; where a record lands is not for a line to say
    "topic": "",
}


def _record_of_json(line: bytes) -> Record:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"this is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadLine('a record is a JSON object such as {"key": "a", "value": "b"}')
    said: dict[str, Any] = {"value": None}
    for name, given in fields.items():
        if name not in _FIELDS:
            raise BadLine(f"{name!r} is not a field of a record: expected {', '.join(_FIELDS)}")
        field = _FIELDS[name]
        if field in ("key", "value"):
            said[field] = _bytes_of(name, given)
        elif field == "headers":
            said[field] = _headers_of(given)
        elif field == "partition":
            said[field] = _whole_number(name, given, _INT32_MAX)
        elif field == "timestamp":
            said[field] = _timestamp_of(given)
    return Record(**said)


def _bytes_of(name: str, given: object) -> bytes | None:
    if given is None:
        return None
    if name.endswith(("_base64", "_hex")):
        if not isinstance(given, str):
            raise BadLine(f"{name} must be a string")
        form = Form.BASE64 if name.endswith("_base64") else Form.HEX
        return _decoded(_utf8(name, given), form)
    if isinstance(given, str):
        return _utf8(name, given)
    return json.dumps(given, separators=(",", ":"), ensure_ascii=False).encode()


def _headers_of(given: object) -> Headers:
    pairs = list(given.items()) if isinstance(given, dict) else given
    if pairs is None:
        return []
    headers: Headers = []
    for pair in pairs if isinstance(pairs, list) else [pairs]:
        if not (isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str)):
            raise BadLine('headers are {"name": "value"} or [["name", "value"], ...]')
        name, value = pair
        if b"\0" in _utf8("a header's name", name):
            raise BadLine("a header's name holds a zero, at which the client would cut it off")
        if isinstance(value, dict) and list(value) == ["base64"]:
            headers.append((name, _bytes_of("header_base64", value["base64"])))
        else:
            headers.append((name, _bytes_of("header", value)))
    return headers


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadLine(f"{name} holds half a surrogate pair, which is no text") from None


def _whole_number(name: str, given: object, largest: int) -> int | None:
    if given is None:
        return None
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= largest:
        return given
    raise BadLine(f"{name} must be a whole number of at most {largest}")


def _timestamp_of(given: object) -> int | None:
    if isinstance(given, str):
        try:
            return round(datetime.fromisoformat(given).timestamp() * 1000)
        except ValueError:
            raise BadLine(f"timestamp {given!r} is no ISO 8601 time") from None
    return _whole_number("timestamp", given, _INT64_MAX)


# Records to lines.


def line_of(message: Any, form: Form, separator: bytes | None) -> bytes:
    """A message of confluent-kafka's as one line, newline included."""
    if form is Form.JSON:
        return _json_of(message)
    value = _encoded(message.value(), form)
    if separator is None:
        return value + b"\n"
    return _encoded(message.key(), form) + separator + value + b"\n"


def _encoded(data: bytes | None, form: Form) -> bytes:
    if not data:
        return b""
    if form is Form.HEX:
        return binascii.hexlify(data)
    if form is Form.BASE64:
        return base64.b64encode(data)
    return data


def _json_of(message: Any) -> bytes:
    kind, timestamp = message.timestamp()
    fields: dict[str, Any] = {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp if kind else None,
    }
    fields |= field_json("key", message.key()) | field_json("value", message.value())
    headers = message.headers()
    if headers:
        fields["headers"] = [[name, header_json(data)] for name, data in headers]
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def field_json(name: str, data: bytes | None) -> dict[str, str | None]:
    """Bytes as a field of this name; of the name with `_base64` if they are not text."""
    text = _text_of(data)
    if data is not None and text is None:
        return {f"{name}_base64": base64.b64encode(data).decode()}
    return {name: text}


def header_json(data: bytes | None) -> object:
    """The value of a header, where there is no name to tell that it is not text."""
    text = _text_of(data)
    if data is not None and text is None:
        return {"base64": base64.b64encode(data).decode()}
    return text


def _text_of(data: bytes | None) -> str | None:
    """The text that these bytes are; None if they are not UTF-8, and JSON cannot hold them."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None

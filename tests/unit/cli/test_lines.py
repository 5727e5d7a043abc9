from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.lines import BadLine, Form, Record, line_of, record_of


class Message:
    """What confluent-kafka hands out."""

    def __init__(
        self,
        value: bytes | None,
        key: bytes | None = None,
        headers: list[tuple[str, bytes | None]] | None = None,
        timestamp: tuple[int, int] = (1, 1_700_000_000_000),
    ) -> None:
        self._fields = value, key, headers, timestamp

    def value(self) -> bytes | None:
        return self._fields[0]

    def key(self) -> bytes | None:
        return self._fields[1]

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self._fields[2]

    def timestamp(self) -> tuple[int, int]:
        return self._fields[3]

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 42


def test_a_line_of_text_is_a_value() -> None:
    assert record_of(b"hello: you", Form.TEXT, None) == Record(b"hello: you")


def test_a_separator_parts_key_from_value_at_its_first_place() -> None:
    assert record_of(b"a:b:c", Form.TEXT, b":") == Record(b"b:c", b"a")


def test_a_line_without_the_separator_is_no_record() -> None:
    with pytest.raises(BadLine, match="no b':' between key and value"):
        record_of(b"abc", Form.TEXT, b":")


def test_text_need_not_be_utf8() -> None:
    assert record_of(b"\xff\xfe", Form.TEXT, None).value == b"\xff\xfe"


def test_hexadecimal_digits_and_base64_stand_for_bytes() -> None:
    assert record_of(b"6b:00ff", Form.HEX, b":") == Record(b"\x00\xff", b"k")
    assert record_of(b"AP8=", Form.BASE64, None) == Record(b"\x00\xff")


@pytest.mark.parametrize(("line", "form"), [(b"0g", Form.HEX), (b"A=P", Form.BASE64)])
def test_what_is_not_in_the_form_is_no_record(line: bytes, form: Form) -> None:
    with pytest.raises(BadLine, match=f"this is not {form.value}"):
        record_of(line, form, None)


def test_json_says_all_of_a_record() -> None:
    line = {
        "key": "k",
        "value": "v",
        "headers": [["a", "1"], ["a", None], ["b", {"base64": "/w=="}]],
        "partition": 2,
        "timestamp": 5,
    }
    assert record_of(json.dumps(line).encode(), Form.JSON, None) == Record(
        b"v", b"k", [("a", b"1"), ("a", None), ("b", b"\xff")], 2, 5
    )


def test_json_values_that_are_no_text_are_written_as_json() -> None:
    assert record_of(b'{"value": {"a": [1, true]}}', Form.JSON, None).value == b'{"a":[1,true]}'


def test_json_without_a_value_is_a_tombstone() -> None:
    assert record_of(b'{"key": "k"}', Form.JSON, None) == Record(None, b"k")


def test_json_takes_times_as_people_write_them() -> None:
    line = b'{"value": "v", "timestamp": "1970-01-01T00:00:01Z"}'
    assert record_of(line, Form.JSON, None).timestamp == 1000


def test_json_takes_headers_as_an_object() -> None:
    line = b'{"value": "v", "headers": {"a": "1"}}'
    assert record_of(line, Form.JSON, None).headers == [("a", b"1")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "this is not JSON"),
        (b"[1]", "a record is a JSON object"),
        (b'{"vlaue": "x"}', "'vlaue' is not a field of a record"),
        (b'{"partition": -1}', "partition must be a whole number"),
        (b'{"partition": true}', "partition must be a whole number"),
        (b'{"timestamp": "yesterday"}', "no ISO 8601 time"),
        (b'{"value_base64": "!"}', "this is not base64"),
        (b'{"value_hex": 5}', "value_hex must be a string"),
        (b'{"headers": "a"}', "headers are"),
        (b'{"headers": {"a\\u0000b": "c"}}', "holds a zero"),
        (b'{"headers": {"\\ud800": "c"}}', "half a surrogate pair"),
        (b'{"value": "\\ud800"}', "half a surrogate pair"),
        (b'{"partition": 2147483648}', "at most 2147483647"),
        (b'{"timestamp": 9223372036854775808}', "at most 9223372036854775807"),
        (b"[" * 100_000, "this is not JSON"),
    ],
)
def test_json_that_is_no_record_is_told_why(line: bytes, problem: str) -> None:
    with pytest.raises(BadLine, match=problem):
        record_of(line, Form.JSON, None)


def test_a_record_becomes_its_value_and_its_key_before_a_separator() -> None:
    assert line_of(Message(b"v", b"k"), Form.TEXT, None) == b"v\n"
    assert line_of(Message(b"v", b"k"), Form.TEXT, b"\t") == b"k\tv\n"
    assert line_of(Message(None, None), Form.TEXT, b"\t") == b"\t\n"


def test_a_record_becomes_json_with_its_place() -> None:
    line = json.loads(line_of(Message(b"v", b"\xff", [("h", b"\xff")]), Form.JSON, None))
    assert line == {
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_000,
        "key_base64": "/w==",
        "value": "v",
        "headers": [["h", {"base64": "/w=="}]],
    }


def test_a_record_without_a_time_says_so_in_json() -> None:
    line = line_of(Message(b"v", timestamp=(0, -1)), Form.JSON, None)
    assert json.loads(line)["timestamp"] is None


_maybe = st.none() | st.binary(max_size=20)


_name = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=5)


@given(_maybe, _maybe, st.lists(st.tuples(_name, _maybe), max_size=3))
def test_what_json_writes_it_reads_back(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = line_of(Message(value, key, headers), Form.JSON, None)
    expected = Record(value, key, headers, 3, 1_700_000_000_000)
    assert record_of(line.rstrip(b"\n"), Form.JSON, None) == expected


@given(st.binary(max_size=50), st.binary(max_size=50), st.sampled_from([Form.HEX, Form.BASE64]))
def test_what_hex_and_base64_write_they_read_back(value: bytes, key: bytes, form: Form) -> None:
    line = line_of(Message(value, key), form, b":")
    assert line.count(b"\n") == 1
    assert record_of(line.rstrip(b"\n"), form, b":") == Record(value, key)

"""Values that are Protobuf messages."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.context import Context
from penstock.pipeline.formats.decode import decode
from penstock.pipeline.formats.descriptors import class_of, descriptor_set, message_of, path_of
from penstock.pipeline.formats.framing import NOT_FRAMED, frame, message_path, message_path_end
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.formats import Format

Decoder = Callable[..., list[tuple[Any, str | None]]]

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/duration.proto";

enum State { NEW = 0; PAID = 1; }

message Order {
  message Line { string article = 1; uint32 count = 2; }
  int64 id = 1;
  optional double amount = 2;
  State state = 3;
  google.protobuf.Timestamp at = 4;
  repeated Line lines = 5;
  map<string, int32> marks = 6;
  google.protobuf.StringValue note = 7;
  Line first = 8;
  uint64 big = 9;
  bytes raw = 10;
  google.protobuf.Struct more = 11;
  google.protobuf.Duration took = 12;
  oneof pays { string card = 13; bool cash = 14; }
}
"""


@pytest.fixture
def order(tmp_path: Path, make_context: Callable[..., Context]) -> Any:
    """The class of the message, compiled of a file in the test's folder."""
    (tmp_path / "order.proto").write_text(PROTO)
    form = Format(format="protobuf", schema="order.proto")
    files = descriptor_set(make_context(), form, "")
    return class_of(files, message_of(files, form).full_name)


def full(order: Any) -> Any:
    message = order(
        id=1,
        amount=2.5,
        state=1,
        lines=[{"article": "tea", "count": 2}],
        marks={"a": 1},
        first={"article": "tea"},
        big=2**63,
        raw=b"\xff",
        card="4711",
    )
    message.note.value = "hi"
    message.at.FromJsonString("2026-11-01T10:00:00Z")
    message.more.update({"x": 1})
    message.took.FromMilliseconds(1500)
    return message


def test_a_message_becomes_columns(decoded: Decoder, order: Any) -> None:
    form = Format(format="protobuf", schema="order.proto", message="Order")
    (full_row, _), (empty_row, _), tombstone = decoded(
        form, full(order).SerializeToString(), b"", None
    )
    at = full_row.pop("at").astimezone(datetime.UTC).replace(tzinfo=None)
    assert at == datetime.datetime(2026, 11, 1, 10)
    assert full_row == {
        "id": 1,
        "amount": 2.5,
        "state": "PAID",
        "lines": [{"article": "tea", "count": 2}],
        "marks": {"a": 1},
        "note": "hi",
        "first": {"article": "tea", "count": 0},
        "big": Decimal(2**63),
        "raw": b"\xff",
        "more": '{"x": 1.0}',
        "took": datetime.timedelta(seconds=1.5),
        "card": "4711",
        "cash": None,
    }
    assert empty_row == {
        **dict.fromkeys(("amount", "at", "note", "first", "more", "took", "card", "cash")),
        "id": 0,
        "state": "NEW",
        "lines": [],
        "marks": {},
        "big": Decimal(0),
        "raw": b"",
    }
    assert tombstone == (None, None)


def test_bytes_that_are_no_message_are_an_error(decoded: Decoder, order: Any) -> None:
    form = Format(format="protobuf", schema="order.proto")
    good = full(order).SerializeToString()
    results = decoded(form, good[:-1], b"\xff\xff", good)
    assert [reason for _, reason in results] == ["it is not a message shop.Order"] * 2 + [None]


def test_a_registrys_frame_and_the_way_to_the_message_are_skipped(
    decoded: Decoder, order: Any
) -> None:
    form = Format(format="protobuf", schema="order.proto", framed=True)
    value = order(id=5).SerializeToString()
    results = decoded(
        form,
        frame(1) + message_path([0]) + value,
        frame(1) + message_path([2, 1]) + value,
        frame(1) + b"\xff",
        value,
    )
    assert [row and row["id"] for row, _ in results[:2]] == [5, 5]
    assert [reason for _, reason in results] == [
        None,
        None,
        "it is not a message shop.Order",
        NOT_FRAMED,
    ]


def test_the_way_to_a_message_is_written_as_it_is_read(order: Any) -> None:
    assert path_of(order.DESCRIPTOR.nested_types_by_name["Line"]) == [0, 0]
    assert message_path([0]) == b"\0"
    for path in ([0], [1], [0, 3], [200, 7, 100_000]):
        assert message_path_end(message_path(path) + b"rest") == len(message_path(path))


def test_a_missing_required_field_is_an_error(decoded: Decoder, tmp_path: Path) -> None:
    (tmp_path / "old.proto").write_text(
        'syntax = "proto2"; message Old { required int32 id = 1; optional int32 n = 2; }'
    )
    form = Format(format="protobuf", schema="old.proto")
    results = decoded(form, b"\x10\x01", b"\x08\x01")
    assert results == [(None, "the field `id` is missing"), ({"id": 1, "n": None}, None)]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (Format(format="protobuf"), "protobuf needs a schema"),
        (Format(format="protobuf", schema="bad.proto"), r"bad\.proto cannot be compiled: .*:1:"),
        (Format(format="protobuf", schema="bad.desc"), "not a set of Protobuf descriptors"),
        (Format(format="protobuf", schema="tree.proto"), "Tree holds itself"),
        (Format(format="protobuf", schema="tree.proto", message="Bush"), "no message 'Bush'"),
    ],
)
def test_a_schema_that_cannot_be_used_is_told_with_advice(
    spark: object, make_context: Callable[..., Context], tmp_path: Path, form: Format, said: str
) -> None:
    from pyspark.sql import functions as f

    (tmp_path / "bad.proto").write_text("massage X {}")
    (tmp_path / "bad.desc").write_text("nonsense")
    (tmp_path / "tree.proto").write_text('syntax = "proto3"; message Tree { Tree left = 1; }')
    with pytest.raises(Problem, match=said) as caught:
        decode(make_context(), f.col("v"), form)
    assert caught.value.advice

"""Values that are text, bytes, JSON or CSV: good ones, and each way to be bad."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.context import Context
from penstock.pipeline.formats.decode import decode
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.formats import BINARY, STRING, Format

Decoder = Callable[..., list[tuple[Any, str | None]]]

ORDER = "id long NOT NULL, amount decimal(10,2), at timestamp, tags array<string>"


def reasons(results: list[tuple[Any, str | None]]) -> list[str | None]:
    return [reason for _, reason in results]


def test_text_is_utf_8_or_an_error(decoded: Decoder) -> None:
    results = decoded(STRING, "grün".encode(), b"\xff\xfe", b"", None)
    assert results[0] == ("grün", None)
    assert results[1][1] == "it is not UTF-8"
    assert results[2:] == [("", None), (None, None)]


def test_bytes_are_never_wrong(decoded: Decoder) -> None:
    assert decoded(BINARY, b"\xff", None) == [(b"\xff", None), (None, None)]


def test_json_becomes_columns_and_unknown_fields_are_ignored(decoded: Decoder) -> None:
    form = Format(format="json", schema=ORDER)
    good = b' {"id": 1, "amount": 2.50, "more": {}, "tags": ["a"]}\n'
    (result,) = decoded(form, good)
    assert result == ({"id": 1, "amount": Decimal("2.50"), "at": None, "tags": ["a"]}, None)


def test_json_that_cannot_be_read_says_why(decoded: Decoder) -> None:
    form = Format(format="json", schema=ORDER)
    results = decoded(
        form,
        b"{oops}",
        b'{"id": 1',
        b'{"id": "x"}',
        b'{"id": 1, "tags": "none"}',
        b'{"id": 1} trailing',
        b'{"id": 1}{"id": 2}',
        b"[]",
        b'[{"id": 1}, {"id": 2}]',
        b"42",
        b"",
        b"  ",
        b'{"amount": 1}',
        b'{"id": null}',
        b'{"id": 1, "at": "yesterday"}',
        b'{"id": 1, "amount": 123456789012.00}',
        b'{"id": "\xff"}',
        b'{"id": 1, "more": "}{"}',
        None,
    )
    assert reasons(results) == [
        "it is not JSON",
        "it is not JSON: something follows the object, or its end is missing",
        "the field `id` is not a bigint: x",
        "the field `tags` is not an array: none",
        "it is not JSON: something follows the object, or its end is missing",
        "it is not JSON: something follows the object, or its end is missing",
        "it is a JSON array, not an object",
        "it is a JSON array, not an object",
        "it is not a JSON object",
        "it is empty",
        "it is empty",
        "the field `id` is missing",
        "the field `id` is missing",
        "the field `at` is not a timestamp: yesterday",
        "the field `amount` is not a decimal(10,2): 1.23456789012E11",
        "it is not UTF-8",
        None,
        None,
    ]


@pytest.mark.parametrize(
    "value",
    [b'{"id": 1}, {"id": 2}', b'{"id": 1} and {"id": 2}', b'{"id": 1}\x0b{"id": 2}',
     b' {"id": 1, "more": {}}{"id": 2} ', b'{"id": NaN}{"id": 2}'],
)  # fmt: skip
def test_no_object_behind_another_is_forgotten(decoded: Decoder, value: bytes) -> None:
    (said,) = reasons(decoded(Format(format="json", schema=ORDER), value))
    assert said == "it is not JSON: something follows the object, or its end is missing"


@pytest.mark.parametrize(
    "value",
    [b'{"id": 1, "more": [{"a": {}}, {"b": 1} ] }', b'{"id": 1, "more": "} and {"}',
     b"{'id': 1, 'more': {'a': 1}}", b'{"id": 1, "more": {"a": NaN}}', b'{"id": 1}\r\n'],
)  # fmt: skip
def test_objects_within_an_object_are_nothing_to_complain_of(
    decoded: Decoder, value: bytes
) -> None:
    ((found, said),) = decoded(Format(format="json", schema=ORDER), value)
    assert (said, found["id"]) == (None, 1)


def test_a_missing_field_within_a_struct_is_named_by_its_path(decoded: Decoder) -> None:
    form = Format(format="json", schema="who struct<name: string NOT NULL>")
    results = decoded(form, b'{"who": {}}', b'{"who": {"name": "a"}}', b"{}")
    assert reasons(results) == ["the field `who.name` is missing", None, None]


def test_csv_becomes_columns(decoded: Decoder) -> None:
    form = Format(format="csv", schema="id long, name string, amount double", delimiter=";")
    assert decoded(form, b'1;"a;b";2.5', b"2;;", None) == [
        ({"id": 1, "name": "a;b", "amount": 2.5}, None),
        ({"id": 2, "name": None, "amount": None}, None),
        (None, None),
    ]


def test_csv_that_cannot_be_read_says_why(decoded: Decoder) -> None:
    form = Format(format="csv", schema="id long NOT NULL, name string")
    results = decoded(form, b"x,a", b"1", b"1,a,b", b"", b",a", b"1,\xff")
    assert reasons(results) == [
        "the field `id` is not a bigint: x",
        "it does not have 2 columns",
        "it does not have 2 columns",
        "it is empty",
        "the field `id` is missing",
        "it is not UTF-8",
    ]


def test_framed_json_is_read_behind_its_frame(decoded: Decoder) -> None:
    form = Format(format="json", schema="id long", framed=True)
    results = decoded(form, b'\0\0\0\0\x07{"id": 1}', b'{"id": 1}', b"\0\0", None)
    unframed = "it does not begin with a zero and the number of a registered schema"
    assert results == [({"id": 1}, None), (None, unframed), (None, unframed), (None, None)]


def test_a_schema_may_stand_in_a_file(decoded: Decoder, tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StructType

    (tmp_path / "order.json").write_text(StructType().add("id", LongType()).json())
    assert decoded(Format(format="json", schema="order.json"), b'{"id": 1}') == [({"id": 1}, None)]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (Format(format="json"), "json needs a schema"),
        (Format(format="json", schema="id lung"), "the schema 'id lung' cannot be read"),
        (Format(format="json", schema="missing.json"), r"missing\.json cannot be read"),
        (Format(format="parquet"), "cannot be parquet"),
    ],
)
def test_a_format_that_cannot_work_is_refused_with_advice(
    spark: object, make_context: Callable[..., Context], form: Format, said: str
) -> None:
    from pyspark.sql import functions as f

    with pytest.raises(Problem, match=said) as caught:
        decode(make_context(), f.col("v"), form)
    assert caught.value.advice

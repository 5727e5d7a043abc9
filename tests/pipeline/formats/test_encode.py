"""Rows that become values: what was written is what is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.pipeline.context import Context
from penstock.pipeline.formats.encode import encode
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.formats import BINARY, STRING, Format
from tests.pipeline.formats.registry import SmallRegistry, small_registry
from tests.pipeline.formats.test_avro import ID, NAME, record
from tests.pipeline.formats.test_protobuf import PROTO, full

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Encoder = Callable[..., list[bytes | None]]
Decoder = Callable[..., list[tuple[Any, str | None]]]


@pytest.fixture
def encoded(make_context: Callable[..., Context]) -> Encoder:
    """The values of rows, in their order."""

    def run(rows: DataFrame, form: Format, subject: str = "") -> list[bytes | None]:
        made = rows.select(encode(rows, form, make_context(), subject).alias("v"))
        return [None if row.v is None else bytes(row.v) for row in made.collect()]

    return run


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with small_registry() as running:
        yield running


def people(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [(1, "Ada", "k"), (None, None, "k")], "id long, name string, _key string"
    ).coalesce(1)


def test_a_row_becomes_json_or_csv_without_the_columns_that_describe_the_record(
    spark: SparkSession, encoded: Encoder
) -> None:
    rows = people(spark)
    assert encoded(rows, Format(format="json")) == [b'{"id":1,"name":"Ada"}', None]
    assert encoded(rows, Format(format="csv", delimiter=";")) == [b"1;Ada", None]


def test_text_and_bytes_are_one_column(spark: SparkSession, encoded: Encoder) -> None:
    assert encoded(people(spark).select("id", "_key"), STRING) == [b"1", None]
    named = people(spark).selectExpr("id", "encode(name, 'UTF-8') AS value")
    assert encoded(named, BINARY) == [b"Ada", None]
    with pytest.raises(Problem, match="is made of one column, and there are 2: id, name"):
        encoded(people(spark), STRING)
    with pytest.raises(Problem, match="nothing to write"):
        encoded(people(spark).select("_key"), STRING)


def test_avro_is_read_as_it_was_written(
    spark: SparkSession, encoded: Encoder, decoded: Decoder, tmp_path: Path
) -> None:
    (tmp_path / "person.avsc").write_text(json.dumps(record(ID, NAME)))
    form = Format(format="avro", schema="person.avsc")
    values = encoded(people(spark), form)
    assert decoded(form, *values) == [({"id": 1, "name": "Ada"}, None), (None, None)]


def test_avro_is_registered_and_framed(
    spark: SparkSession,
    encoded: Encoder,
    decoded: Decoder,
    registry: SmallRegistry,
    tmp_path: Path,
) -> None:
    (tmp_path / "person.avsc").write_text(json.dumps(record(ID, NAME)))
    form = Format(format="avro", schema="person.avsc", registry=registry.url)
    values = encoded(people(spark), form, "people-value")
    assert list(registry.subjects) == ["people-value"]
    read = decoded(Format(format="avro", registry=registry.url), *values, subject="people-value")
    assert read == [({"id": 1, "name": "Ada"}, None), (None, None)]


def test_protobuf_is_read_as_it_was_written(
    spark: SparkSession, encoded: Encoder, make_context: Callable[..., Context], tmp_path: Path
) -> None:
    from pyspark.sql import functions as f

    from penstock.pipeline.formats.decode import decode
    from penstock.pipeline.formats.descriptors import class_of, descriptor_set, message_of

    (tmp_path / "order.proto").write_text(PROTO)
    form = Format(format="protobuf", schema="order.proto")
    files = descriptor_set(make_context(), form, "")
    order = class_of(files, message_of(files, form).full_name)
    value = full(order).SerializeToString(deterministic=True)
    frame = spark.createDataFrame([(value,)], "v binary")
    rows = frame.select(decode(make_context(), f.col("v"), form).value.alias("x")).select("x.*")
    assert order.FromString(encoded(rows, form)[0]) == full(order)


def test_messages_that_are_json_are_written_after_their_classes_were_garbage(
    make_context: Callable[..., Context], tmp_path: Path
) -> None:
    """Protobuf keeps no class that nobody else keeps, and workers look for garbage."""
    import gc

    from penstock.pipeline.formats.descriptors import class_of, descriptor_set, message_of
    from penstock.pipeline.formats.protobuf_encode import filler

    proto = (
        'syntax = "proto3"; import "google/protobuf/struct.proto";\n'
        "message Only { google.protobuf.Struct written = 1; }"
    )
    (tmp_path / "only.proto").write_text(proto)
    form = Format(format="protobuf", schema="only.proto")
    files = descriptor_set(make_context(), form, "")
    cls = class_of(files, message_of(files, form).full_name)
    gc.collect()
    made = cls(**filler(cls.DESCRIPTOR)({"written": '{"a": 1}'}))
    assert made.written.fields["a"].number_value == 1


def test_columns_that_a_schema_does_not_know_are_refused(
    spark: SparkSession, encoded: Encoder, tmp_path: Path
) -> None:
    (tmp_path / "person.avsc").write_text(json.dumps(record(ID)))
    (tmp_path / "order.proto").write_text(PROTO)
    with pytest.raises(Problem, match="Avro schema has no field 'name'"):
        encoded(people(spark), Format(format="avro", schema="person.avsc"))
    with pytest.raises(Problem, match=r"shop\.Order has no field 'name'"):
        encoded(people(spark), Format(format="protobuf", schema="order.proto"))

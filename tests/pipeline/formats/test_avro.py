"""Values that are Avro, with a schema file and with a registry."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from penstock.pipeline.context import Context
from penstock.pipeline.formats.avro import Resolver
from penstock.pipeline.formats.decode import decode
from penstock.pipeline.formats.framing import NOT_FRAMED, frame
from penstock.pipeline.formats.registry import Registry, RegistryFailed, shown
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.formats import Format
from tests.pipeline.formats.registry import SmallRegistry, small_registry

Decoder = Callable[..., list[tuple[Any, str | None]]]

ID = {"name": "id", "type": "long"}
NAME = {"name": "name", "type": ["null", "string"], "default": None}
CITY = {"name": "city", "type": "string", "default": "?"}


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Person", "fields": list(fields)}


def pack(schema: Any, value: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return target.getvalue()


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with small_registry() as running:
        yield running


def test_values_of_a_schema_file_become_columns_and_the_others_an_error(
    decoded: Decoder, tmp_path: Path
) -> None:
    schema = record(ID, NAME)
    (tmp_path / "person.avsc").write_text(json.dumps(schema))
    form = Format(format="avro", schema="person.avsc")
    good = pack(schema, {"id": 7, "name": "Ada"})
    results = decoded(form, good, good[:2], b"", b"\xff" * 12, None)
    assert results[0] == ({"id": 7, "name": "Ada"}, None)
    assert [reason for _, reason in results[1:]] == [
        "it is not Avro of this schema",
        "it is empty",
        "it is not Avro of this schema",
        None,
    ]


def test_a_record_whose_fields_are_all_null_is_a_good_record(
    decoded: Decoder, tmp_path: Path
) -> None:
    (tmp_path / "person.avsc").write_text(json.dumps(record(NAME)))
    form = Format(format="avro", schema="person.avsc", framed=True)
    unframed = pack(record(NAME), {"name": None})
    good, bad = decoded(form, frame(3) + unframed, unframed)
    assert good == ({"name": None}, None)
    assert bad[1] == NOT_FRAMED


def test_a_schema_need_not_be_a_record(decoded: Decoder, tmp_path: Path) -> None:
    (tmp_path / "text.avsc").write_text('"string"')
    form = Format(format="avro", schema="text.avsc")
    results = decoded(form, pack("string", "hello"), b"\xff\xff")
    assert results == [("hello", None), (None, "it is not Avro of this schema")]


def test_values_of_every_registered_version_are_read_with_the_newest(
    decoded: Decoder, registry: SmallRegistry
) -> None:
    old, new = record(ID, NAME), record(ID, CITY)
    first = registry.add("people-value", json.dumps(old))
    second = registry.add("people-value", json.dumps(new))
    form = Format(format="avro", registry=registry.url)
    results = decoded(
        form,
        frame(first) + pack(old, {"id": 1, "name": "Ada"}),
        frame(second) + pack(new, {"id": 2, "city": "Rome"}),
        frame(99) + b"x",
        frame(first) + b"\xff",
        b"no frame",
        None,
        subject="people-value",
    )
    assert results[:2] == [({"id": 1, "city": "?"}, None), ({"id": 2, "city": "Rome"}, None)]
    assert [reason for _, reason in results[2:]] == [
        "the registry has no Avro schema 99",
        "it is not Avro of the registry's schema 1",
        NOT_FRAMED,
        None,
    ]


def test_a_schema_that_is_registered_later_is_looked_up_when_it_is_met(
    registry: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.pipeline.formats.avro.MISSING_SECONDS", 0.0)
    reader = record(ID)
    resolver = Resolver(registry.url, json.dumps(reader))
    value = frame(1) + pack(record(NAME, ID), {"name": "Ada", "id": 5})
    assert resolver.resolve(value) == (None, "the registry has no Avro schema 1")
    registry.add("people-value", json.dumps(record(NAME, ID)))
    assert resolver.resolve(value) == (pack(reader, {"id": 5}), None)


def test_a_schema_is_asked_for_once(registry: SmallRegistry) -> None:
    registry.add("people-value", json.dumps(record(ID)))
    resolver = Resolver(registry.url, json.dumps(record(ID)))
    for _ in range(3):
        assert resolver.resolve(frame(1) + b"\x02") == (b"\x02", None)
    assert registry.asked == ["/schemas/ids/1"]


def test_a_registry_that_is_down_stops_the_work_and_blames_no_record() -> None:
    resolver = Resolver("http://user:secret@127.0.0.1:9/", json.dumps(record(ID)))
    with pytest.raises(RegistryFailed, match="cannot be reached") as caught:
        resolver.resolve(frame(1) + b"\x02")
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(Registry("http://user:secret@127.0.0.1:9/"))
    assert shown("http://user:secret@host:81/a") == "http://host:81/a"


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (Format(format="avro"), "avro needs a schema"),
        (Format(format="avro", schema="bad.avsc"), "bad.avsc is not an Avro schema"),
        (Format(format="avro", registry="http://127.0.0.1:9"), "cannot be reached"),
        (Format(format="avro", registry="nonsense"), "is not an address"),
    ],
)
def test_a_schema_that_cannot_be_had_is_told_with_advice(
    spark: object, make_context: Callable[..., Context], tmp_path: Path, form: Format, said: str
) -> None:
    from pyspark.sql import functions as f

    (tmp_path / "bad.avsc").write_text('{"type": "recodr"}')
    with pytest.raises(Problem, match=said) as caught:
        decode(make_context(), f.col("v"), form, "people-value")
    assert caught.value.advice


def test_a_value_whose_schema_does_not_fit_the_readers_is_an_error(
    registry: SmallRegistry,
) -> None:
    registry.add("people-value", json.dumps(record(NAME)))
    resolver = Resolver(registry.url, json.dumps(record(ID)))
    payload, reason = resolver.resolve(frame(1) + pack(record(NAME), {"name": "Ada"}))
    assert payload is None
    assert reason is not None
    assert reason.startswith("the registry's schema 1 does not fit the reader's")

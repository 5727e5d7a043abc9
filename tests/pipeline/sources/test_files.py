"""Files as sources: what Spark makes of them, batch after batch."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sources.files import open_source
from penstock.pipeline.spec.formats import Format
from penstock.pipeline.spec.sources import FileSource

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    Make = Callable[..., Context]
    Drain = Callable[..., list[Row]]


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def lines(rows: list[Row]) -> list[tuple[str, int, str]]:
    return sorted((os.path.basename(row._file), row._line, row.value) for row in rows)


def test_a_growing_log_is_read_once_through_stops_and_a_rotation(
    tmp_path: Path, make_context: Make, drain: Drain
) -> None:
    log = tmp_path / "a.log"
    append(log, b"one\r\ntwo\nhal")
    spec = FileSource(files="*.log", growing=True)
    context = make_context(spec)
    assert lines(drain(open_source(context, "log", spec).rows)) == [
        ("a.log", 1, "one"),
        ("a.log", 2, "two"),
    ]
    append(log, b"f\n")
    os.rename(log, tmp_path / "a.log.1")
    append(log, b"four\n")
    assert lines(drain(open_source(context, "log", spec).rows)) == [
        ("a.log", 1, "four"),
        ("a.log.1", 3, "half"),
    ]


def test_a_bad_line_leaves_with_its_place_and_bytes(
    tmp_path: Path, make_context: Make, drain: Drain
) -> None:
    append(tmp_path / "a.log", b'{"id": 1}\n\n{"id": }\n{"id": 4}\n')
    spec = FileSource(files="a.log", growing=True, format=Format(format="json", schema="id long"))
    view = open_source(make_context(spec, policy="dlq"), "log", spec)
    assert [(row.id, row._line) for row in drain(view.rows)] == [(1, 1), (4, 4)]
    (bad,) = drain(view.errors[0], "errors")
    assert bad.reason == "it is not JSON"
    assert (os.path.basename(bad._origin.file), bad._origin.line) == ("a.log", 3)
    assert bytes(bad._origin.value) == b'{"id": }'


def test_whole_files_come_once_with_their_lines_packed_or_not(
    tmp_path: Path, make_context: Make, drain: Drain
) -> None:
    folder = tmp_path / "in box"
    folder.mkdir()
    append(folder / "a%20b.csv", b"id,name\n1,Ada\n2,Bob")
    with gzip.open(folder / "b.csv.gz", "wb") as file:
        file.write(b"id,name\n3,Cid\n")
    form = Format(format="csv", schema="id long, name string", header=True)
    spec = FileSource(files="in box", format=form)
    context = make_context(spec)
    rows = drain(open_source(context, "box", spec).rows)
    assert sorted((row.id, row.name, os.path.basename(row._file), row._line) for row in rows) == [
        (1, "Ada", "a%20b.csv", 2),
        (2, "Bob", "a%20b.csv", 3),
        (3, "Cid", "b.csv.gz", 2),
    ]
    append(folder / "c.csv", b"id,name\n4,Dan\n")
    assert [row.id for row in drain(open_source(context, "box", spec).rows)] == [4]


def test_a_header_that_names_other_columns_is_a_bad_record(
    tmp_path: Path, make_context: Make, drain: Drain
) -> None:
    append(tmp_path / "a.csv", b'\xef\xbb\xbf"ID", name\n1,Ada\n')
    append(tmp_path / "b.csv", b"name,id\nBob,2\n")
    form = Format(format="csv", schema="id long, name string", header=True)
    spec = FileSource(files="*.csv", format=form)
    view = open_source(make_context(spec, policy="dlq"), "box", spec)
    assert [row.id for row in drain(view.rows)] == [1]
    bad = sorted(drain(view.errors[0], "errors"), key=lambda row: row._origin.line)
    assert [(os.path.basename(row._origin.file), row.reason) for row in bad] == [
        ("b.csv", "the header names other columns than the schema"),
        ("b.csv", "the field `id` is not a bigint: Bob"),
    ]


@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_files_with_columns_of_their_own_are_read_with_their_names(
    spark: SparkSession, tmp_path: Path, make_context: Make, drain: Drain, kind: str
) -> None:
    spark.range(3).coalesce(1).write.format(kind).save(str(tmp_path / "lake"))
    spec = FileSource(files="lake", format=Format(format=kind))
    rows = drain(open_source(make_context(spec), "lake", spec).rows)
    assert sorted(row.id for row in rows) == [0, 1, 2]
    folder = str(tmp_path / "lake")
    assert all(row._file.startswith(folder) and row._file.endswith(kind) for row in rows)


def test_the_columns_of_avro_files_may_come_from_a_schema_file(
    spark: SparkSession, tmp_path: Path, make_context: Make
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    (tmp_path / "r.avsc").write_text(json.dumps(schema))
    (tmp_path / "lake").mkdir()
    spec = FileSource(files="lake", format=Format(format="avro", schema="r.avsc"))
    assert open_source(make_context(spec), "lake", spec).rows.columns == ["id", "_file", "_origin"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (FileSource(files="nowhere"), "nowhere does not exist"),
        (FileSource(files="s3://x/y", growing=True), "cannot be followed as it grows"),
        (FileSource(files="lake", format=Format(format="parquet")), "no file at .*lake yet"),
        (FileSource(files="lake", format=Format(format="protobuf")), "cannot be read as protobuf"),
        (
            FileSource(files="lake", format=Format(format="parquet"), growing=True),
            "parquet files do not grow",
        ),
        (
            FileSource(files="lake", watermark="at 10 minutes"),
            "the watermark's column 'at' is not there",
        ),
        (
            FileSource(files="lake", watermark="value 10 minutes"),
            "the watermark's column 'value' is of type string",
        ),
    ],
)
def test_files_that_cannot_be_read_are_told_with_advice(
    tmp_path: Path, make_context: Make, spec: FileSource, said: str
) -> None:
    (tmp_path / "lake").mkdir()
    with pytest.raises(Problem, match=said) as caught:
        open_source(make_context(spec), "files", spec)
    assert caught.value.advice

"""Files that are right, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipeline.spec.formats import BINARY, STRING, Format
from penstock.pipeline.spec.model import OnError, Trigger
from penstock.pipeline.spec.read import read_pipeline
from penstock.pipeline.spec.sinks import ConsoleSink, IcebergSink, ParquetSink, TopicSink
from penstock.pipeline.spec.sources import (
    FileSource,
    GeneratorSource,
    JdbcSource,
    PythonSource,
    TopicSource,
)
from penstock.pipeline.spec.steps import (
    JoinStep,
    MaskStep,
    PythonStep,
    RouteStep,
    SqlStep,
    StatefulStep,
    WindowStep,
)
from tests.pipeline.spec.files import EXAMPLES, EXAMPLES_ENVIRONMENT, FULL, MINIMAL, read


def test_a_name_a_source_and_a_sink_make_a_pipeline() -> None:
    pipeline = read(MINIMAL)
    assert pipeline.name == "orders"
    assert pipeline.sources == {"orders": TopicSource(topic="orders")}
    assert pipeline.sinks == {"lake": ParquetSink(parquet="lake")}
    assert pipeline.steps == ()
    assert pipeline.bootstrap == "localhost:9092"
    assert pipeline.on_error == OnError(policy="fail")
    assert pipeline.group == "penstock.pipeline.orders"


def test_sources_are_told_by_the_keys_that_only_their_kind_has() -> None:
    assert list(read(FULL).sources.values()) == [
        TopicSource(
            topic="orders,orders.late",
            start="latest",
            value=Format(format="json", schema="id long, amount double, at timestamp"),
            key=BINARY,
            watermark="at 10 minutes",
        ),
        TopicSource(pattern="customers-.*"),
        FileSource(files="logs/*.log", growing=True, batch_bytes_max="8m"),
        JdbcSource(
            jdbc="jdbc:postgresql://localhost/shop",
            table="stock",
            column="changed",
            user="reader",
            password="hunter2",
        ),
        GeneratorSource(generate=5, columns={"id": "value"}),
    ]


def test_steps_are_told_by_the_keys_that_only_their_kind_has() -> None:
    assert read(FULL).steps == (
        SqlStep(sql="SELECT * FROM orders WHERE amount > 0", view="big"),
        JoinStep(
            join="customers", source="big", condition="big.id = customers.value", view="named"
        ),
        WindowStep(
            window="5 minutes / 1 minutes",
            on="at",
            by=("name",),
            aggregate={"total": "sum(amount)"},
            view="totals",
        ),
        RouteStep(route={"few": "total < 10", "rest": "true"}, source="totals"),
        MaskStep(
            mask={"name": "null", "card": "keep-last-4"},
            salt="pepper",
            source="named",
            view="masked",
        ),
    )


def test_sinks_are_told_by_the_keys_that_only_their_kind_has() -> None:
    assert read(FULL).sinks == {
        "few": TopicSink(topic="orders.few", source="few", key="name", value=STRING),
        "lake": ParquetSink(parquet="lake", source="rest", partition_by=("day", "hour")),
        "table": IcebergSink(iceberg="shop.orders", mode="upsert", key=("id",), source="masked"),
        "shown": ConsoleSink(console=20),
    }


def test_settings_of_clients_and_of_spark_stay_as_they_are_written() -> None:
    pipeline = read(FULL)
    assert pipeline.kafka == {"security.protocol": "SSL", "reconnect.backoff.ms": "50"}
    assert pipeline.spark == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("10 seconds", Trigger(every="10 seconds")),
        ("90s", Trigger(every="90 seconds")),
        ("1 hour 30 minutes", Trigger(every="1 hours 30 minutes")),
        ("available-now", Trigger(available_now=True)),
        ("{available_now: true}", Trigger(available_now=True)),
        ("{every: 1 minute}", Trigger(every="1 minutes")),
        ("{real_time: 5 minutes}", Trigger(real_time="5 minutes")),
    ],
)
def test_a_trigger_is_written_in_several_ways(written: str, meant: Trigger) -> None:
    text = MINIMAL.replace("parquet: lake", "topic: copy")
    assert read(f"{text}trigger: {written}\n").trigger == meant


@pytest.mark.parametrize("written", ["dlq", "{policy: dlq}", "'dlq'"])
def test_a_policy_for_errors_may_stand_alone(written: str) -> None:
    assert read(f"{MINIMAL}on_error: {written}\n").on_error == OnError(policy="dlq")


def test_parts_know_their_lines() -> None:
    pipeline = read(FULL)
    lines = FULL.splitlines()
    assert lines[pipeline.sources["log"].place.line - 1].strip().startswith("log:")
    assert lines[pipeline.steps[1].place.line - 1].strip().startswith("- join:")
    assert lines[pipeline.sinks["shown"].place.line - 1].strip().startswith("shown:")
    assert pipeline.steps[1].place.path == "steps[2]"
    assert str(pipeline.sinks["shown"].place) == f"orders.yml:{len(lines)} (sinks.shown)"


def test_python_is_named_by_file_and_name_and_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "weather.py").write_text("raise SystemExit\nclass Weather: ...\nenrich = None\n")
    (tmp_path / "orders.yml").write_text(
        "name: weather\n"
        "sources: {weather: {python: 'weather.py:Weather'}}\n"
        "steps:\n"
        "- python: weather.py:enrich\n"
        "- {stateful: 'weather.py:Weather', by: city, schema: city string}\n"
        "sinks: {shown: {console: 5}}\n"
    )
    pipeline = read_pipeline(tmp_path / "orders.yml", {})
    assert pipeline.sources["weather"] == PythonSource(python="weather.py:Weather")
    assert [type(step) for step in pipeline.steps] == [PythonStep, StatefulStep]


def test_anchors_save_writing() -> None:
    pipeline = read(
        """\
        name: orders
        sources:
          one: {topic: one, value: &json {format: json, schema: id long}}
          two: {topic: two, value: *json}
        sinks: {shown: {console: 5}}
        """
    )
    assert [source.value for source in pipeline.sources.values()] == [  # type: ignore[union-attr]
        Format(format="json", schema="id long")
    ] * 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_examples_are_valid(path: Path) -> None:
    assert read_pipeline(path, EXAMPLES_ENVIRONMENT).name


def test_a_byte_order_mark_is_no_mistake() -> None:
    from penstock.pipeline.spec.read import pipeline_of

    assert pipeline_of("x.yml", b"\xef\xbb\xbf" + MINIMAL.encode(), {}).name == "orders"

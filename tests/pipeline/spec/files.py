"""Pipeline files for tests, and reading them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.pipeline.problem import Problem, Problems
from penstock.pipeline.spec.model import Pipeline
from penstock.pipeline.spec.read import pipeline_of

REPOSITORY = Path(__file__).resolve().parents[3]

EXAMPLES = sorted((REPOSITORY / "examples").rglob("*.yml"))
EXAMPLES_ENVIRONMENT = {"DAY": "2026-11-01"}
"""What the examples want to be told."""

MINIMAL = """\
name: orders
sources:
  orders: {topic: orders}
sinks:
  lake: {parquet: lake}
"""

FULL = """\
name: orders
bootstrap: one:9092,two:9092
kafka: {security.protocol: SSL, reconnect.backoff.ms: 50}
spark: {spark.sql.shuffle.partitions: 4, spark.ui.enabled: false}
checkpoint: checkpoints/orders
trigger: 10 seconds
on_error: dlq
sources:
  orders:
    topic: orders, orders.late
    from: latest
    value: {format: json, schema: "id long, amount double, at timestamp"}
    key: binary
    watermark: at 10m
  customers: {pattern: "customers-.*"}
  log: {files: logs/*.log, growing: true, batch_bytes_max: 8m}
  shop:
    jdbc: jdbc:postgresql://localhost/shop
    table: stock
    column: changed
    user: reader
    password: hunter2
  made: {generate: 5, columns: {id: value}}
steps:
  - sql: SELECT * FROM orders WHERE amount > 0
    as: big
  - join: customers
    from: big
    on: big.id = customers.value
    as: named
  - window: 5 minutes / 1m
    on: at
    by: name
    aggregate: {total: sum(amount)}
    as: totals
  - route: {few: total < 10, rest: true}
    from: totals
  - mask: {name: null, card: keep-last-4}
    salt: pepper
    from: named
    as: masked
sinks:
  few: {topic: orders.few, from: few, key: name, value: string}
  lake: {parquet: lake, from: rest, partition_by: [day, hour]}
  table: {iceberg: shop.orders, mode: upsert, key: id, from: masked}
  shown: {console: 20}
"""


def read(text: str, environment: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline of a text; there must not be anything wrong with it."""
    return pipeline_of("orders.yml", textwrap.dedent(text).encode(), environment or {})


def problems(
    text: str | bytes, environment: Mapping[str, str] | None = None
) -> tuple[Problem, ...]:
    """Everything that is wrong with a text; there must be something."""
    content = textwrap.dedent(text).encode() if isinstance(text, str) else text
    with pytest.raises(Problems) as raised:
        pipeline_of("orders.yml", content, environment or {})
    return raised.value.found


def told(text: str | bytes, environment: Mapping[str, str] | None = None) -> list[tuple[int, str]]:
    """The line and the path of everything that is wrong with a text."""
    places = [each.place for each in problems(text, environment)]
    return [(place.line, place.path) for place in places if place is not None]


class CoreLoader(yaml.SafeLoader):
    """YAML as editors read it (1.2): `on` is a word, a time is a text, and keys are texts."""

    yaml_implicit_resolvers = {
        first: [
            (tag, pattern)
            for tag, pattern in resolvers
            if tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:null")
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        return {
            key.value: self.construct_object(value, deep=True)  # type: ignore[no-untyped-call]
            for key, value in node.value
        }


CoreLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("true|True|TRUE|false|False|FALSE"), list("tTfF")
)


def as_editors_see_it(text: str) -> Any:
    """The document that an editor checks against the schema."""
    return yaml.load(textwrap.dedent(text), Loader=CoreLoader)

"""Topics as sinks: what records look like, and where they go."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.formats import Format
from penstock.testing import Broker
from tests.pipeline.sinks.topic_scene import Scene

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRING = Format()


@pytest.fixture
def scene(spark: SparkSession, pipeline_broker: Broker, tmp_path: Path) -> Scene:
    return Scene(spark, pipeline_broker.bootstrap_servers, tmp_path)


def test_a_batch_arrives_and_once_more_changes_nothing(scene: Scene) -> None:
    sink = scene.sink(key="name", partitions=4)
    rows = scene.numbers(0, 1000)
    sink.prepare(rows)
    sink.write(rows, 0)
    sink.write(rows, 0)
    scene.sink(key="name").write(rows, 0)
    sink.write(scene.numbers(1000, 1500), 1)
    ids = [json.loads(each)["id"] for each in scene.values()]
    assert sorted(ids) == list(range(1500))

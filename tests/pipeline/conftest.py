"""What tests of pipelines share: one Spark session and one broker per test process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.testing import Broker
from tests.pipeline.postgres import postgres as postgres
from tests.pipeline.spark.cluster import Cluster
from tests.pipeline.spark.missing import skipped_without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A Java of a test lives for seconds: what its second compiler costs never comes back. Children,
# and theirs, inherit it.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")


@pytest.fixture(scope="session")
def pipeline_broker() -> Iterator[Broker]:
    """A Penstock node of this test process; `bootstrap_servers` tells clients where."""
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session on this machine, with all jars: it takes seconds to start.

    `lake` is an Iceberg catalog.
    """
    from penstock.pipeline.spark.session import open_session

    with open(os.devnull) as lowest:
        # See tests/conftest.py: Java would wait for ever for an answer that nobody listens for.
        assert lowest.fileno() < 900, "too many files are open in this process for py4j's select()"
    folder = tmp_path_factory.mktemp("spark session")  # paths may have spaces
    lake = "spark.sql.catalog.lake"
    with skipped_without_spark():
        session = open_session(
            "tests",
            master="local[2]",
            settings={
                "spark.driver.memory": "1g",
                # A query that cannot be stopped fails its test, and does not hold up the others.
                "spark.sql.streaming.stopTimeout": "60s",
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                lake: "org.apache.iceberg.spark.SparkCatalog",
                f"{lake}.type": "hadoop",
                f"{lake}.warehouse": str(folder / "lake"),
            },
            needs=frozenset({"avro", "iceberg", "postgresql"}),
            log=folder / "spark.log",
        )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone Spark cluster of a master and two workers; `url` is what --master wants."""
    with skipped_without_spark():
        cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    with cluster:
        yield cluster

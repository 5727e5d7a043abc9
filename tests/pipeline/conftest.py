"""What tests of pipelines share: one Spark session and one broker per test process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    from penstock.pipeline.problem import Problem
    from penstock.pipeline.spark.session import open_session

    folder = tmp_path_factory.mktemp("spark")
    lake = "spark.sql.catalog.lake"
    try:
        session = open_session(
            "tests",
            master="local[2]",
            settings={
                "spark.driver.memory": "1g",
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                lake: "org.apache.iceberg.spark.SparkCatalog",
                f"{lake}.type": "hadoop",
                f"{lake}.warehouse": str(folder / "lake"),
            },
            needs=frozenset({"avro", "iceberg", "postgresql"}),
            log=folder / "spark.log",
        )
    except Problem as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI runs every test, but: {missing}", pytrace=False)
        pytest.skip(str(missing))
    yield session
    session.stop()

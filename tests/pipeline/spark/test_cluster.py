"""A session on a cluster: jars, Python files and Penstock itself travel to the executors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import Broker
from tests.pipeline.spark.child import SparkChild
from tests.pipeline.spark.cluster import Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
]  # several Javas start, on two cores that may be busy

SHOUTING = """
def shout(text):
    return text.upper() + "!"
"""


def cluster_session(url: str, settings: dict[str, str], helper: str, log: str) -> Any:
    from penstock.pipeline.spark.session import open_session

    return open_session(
        "travellers", master=url, settings=settings, py_files=[helper], log=Path(log)
    )


def copy_shouting(spark: Any, kafka: dict[str, str], source: str, target: str) -> None:
    """From topic to topic, through a function of a Python file that the executors were sent."""
    from pyspark.sql.functions import udf

    @udf("string")
    def shouted(text: str) -> str:
        from shouting import shout  # type: ignore[import-not-found]

        return str(shout(text))

    rows = spark.read.format("kafka").options(**kafka, subscribe=source).load()
    values = rows.repartition(4).selectExpr("cast(value as string) as value")
    values.select(shouted("value").alias("value")).write.format("kafka").options(
        **kafka, topic=target
    ).save()


def penstock_of_executors(spark: Any) -> set[str]:
    """The file that executors have Penstock's pipelines from."""

    def place(_: int) -> str:
        import penstock.pipeline.problem

        return str(penstock.pipeline.problem.__file__)

    return set(spark.sparkContext.parallelize(range(4), 4).map(place).collect())


def executors(spark: Any) -> int:
    # The driver counts itself.
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


@pytest.fixture(scope="module")
def travellers(
    spark_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkChild]:
    folder = tmp_path_factory.mktemp("travellers")
    helper = folder / "shouting.py"
    helper.write_text(SHOUTING)
    with SparkChild(
        cluster_session,
        spark_cluster.url,
        spark_cluster.settings,
        str(helper),
        str(folder / "spark.log"),
    ) as child:
        yield child


def values_of(spark: Any, kafka: dict[str, str], topic: str) -> list[str]:
    rows = spark.read.format("kafka").options(**kafka, subscribe=topic).load()
    return sorted(row[0] for row in rows.selectExpr("cast(value as string)").collect())


def write_words(spark: Any, kafka: dict[str, str], topic: str) -> None:
    rows = spark.range(8).selectExpr("concat('word ', id) as value")
    rows.write.format("kafka").options(**kafka, topic=topic).save()


def test_a_job_on_a_cluster_goes_from_topic_to_topic_through_python_that_travelled(
    travellers: SparkChild, pipeline_broker: Broker, topic: str
) -> None:
    kafka = {"kafka.bootstrap.servers": pipeline_broker.bootstrap_servers}
    travellers.do(write_words, kafka, topic)
    travellers.do(copy_shouting, kafka, topic, f"{topic}-loud")
    found = travellers.do(values_of, kafka, f"{topic}-loud")
    assert found == [f"WORD {n}!" for n in range(8)]
    assert travellers.do(executors) == 2


def test_executors_have_the_penstock_of_the_driver(travellers: SparkChild) -> None:
    places = travellers.do(penstock_of_executors)
    assert all(".zip/penstock/pipeline/" in place for place in places), places

"""A session as users get it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.testing import Broker


def test_a_session_writes_to_and_reads_from_a_topic(
    spark: SparkSession, pipeline_broker: Broker, topic: str
) -> None:
    servers = pipeline_broker.bootstrap_servers
    rows = spark.range(10).selectExpr("cast(id as string) as value")
    kafka = {"kafka.bootstrap.servers": servers}
    rows.write.format("kafka").options(**kafka, topic=topic).save()
    read = spark.read.format("kafka").options(**kafka, subscribe=topic).load()
    assert sorted(bytes(row.value) for row in read.collect()) == [b"%d" % n for n in range(10)]

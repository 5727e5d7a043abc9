"""Secrets stay secret: on Spark's pages, in its log and on command lines."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.spark.settings import is_secret
from penstock.testing import Broker
from tests.pipeline.spark.child import SparkChild
from tests.pipeline.spark.missing import skipped_without_spark

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
]  # several Javas start, on two cores that may be busy

SECRET = "xyzzy-plugh-42"
JAAS = f'org.example.PlainLoginModule required username="u" password="{SECRET}";'
SETTINGS = {
    "spark.ui.enabled": "true",
    "spark.driver.memory": "700m",
    "spark.hadoop.fs.s3a.secret.key": SECRET,
    "spark.hadoop.some.registry": f"http://user:{SECRET}@127.0.0.1/",
    "spark.executorEnv.DATABASE_PASSWORD": SECRET,
    "spark.penstock.kafka.sasl.jaas.config": JAAS,
    "spark.penstock.kafka.ssl.keystore.key": SECRET,
    "spark.penstock.shown": "in plain sight",
}


def session_with_secrets(log: str) -> Any:
    from penstock.pipeline.spark.session import open_session

    return open_session("secrets", master="local[1]", settings=SETTINGS, log=Path(log))


def write_with_secrets(spark: Any, servers: str, topic: str) -> None:
    """Give the connector options that nobody may see."""
    options = {
        "kafka.bootstrap.servers": servers,
        "kafka.sasl.jaas.config": JAAS,
        "kafka.ssl.keystore.password": SECRET,
        "topic": topic,
    }
    rows = spark.range(3).selectExpr("cast(id as string) as value")
    rows.write.format("kafka").options(**options).save()
    options["subscribe"] = options.pop("topic")
    assert spark.read.format("kafka").options(**options).load().count() == 3


def pages(spark: Any) -> dict[str, str]:
    """What Spark shows, by path; and the command line of its Java, as `ps` has it."""
    root = spark.sparkContext.uiWebUrl
    application = f"api/v1/applications/{spark.sparkContext.applicationId}"
    found = {}
    for path in ("environment/", "SQL/", "executors/", f"{application}/environment",
                 f"{application}/sql?details=true"):  # fmt: skip
        with urllib.request.urlopen(f"{root}/{path}", timeout=30) as page:
            found[path.replace(application, "api")] = page.read().decode()
    for number in range(2):
        with urllib.request.urlopen(f"{root}/SQL/execution/?id={number}", timeout=30) as page:
            found[f"execution {number}"] = page.read().decode()
    found["command line"] = Path(f"/proc/{spark._sc._gateway.proc.pid}/cmdline").read_text()
    return found


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets") / "spark.log"


@pytest.fixture(scope="module")
def child(log: Path) -> Iterator[SparkChild]:
    from penstock.pipeline.spark.jars import jars_for

    with skipped_without_spark():
        jars_for(frozenset())
    with SparkChild(session_with_secrets, str(log)) as child:
        yield child


def test_no_secret_is_on_a_page_in_the_log_or_on_the_command_line(
    child: SparkChild, pipeline_broker: Broker, topic: str, log: Path
) -> None:
    child.do(write_with_secrets, pipeline_broker.bootstrap_servers, topic)
    shown = child.do(pages) | {"the log": log.read_text()}
    assert [path for path, text in shown.items() if SECRET in text] == []
    # The pages are the right ones, and hide no more than they must.
    assert "in plain sight" in shown["environment/"]
    assert "fs.s3a.secret.key" in shown["api/environment"]
    assert "spark.master=local[1]" in shown["command line"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.hadoop.fs.s3a.access.key", "k"),
        ("kafka.sasl.jaas.config", "x"),
        ("spark.sql.catalog.lake.token", "t"),
        ("kafka.ssl.keystore.key", "PEM"),
        ("spark.lake.uri", "https://me:hidden@host/path"),
        ("spark.jdbc", "jdbc:postgresql://host/db?user=me&password=hidden"),
    ],
)
def test_a_secret_is_known_by_its_name_or_by_its_looks(key: str, value: str) -> None:
    assert is_secret(key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.master", "spark://host:7077"),
        ("spark.jars", "/jars/spark-token-provider-kafka-0-10_2.13-4.0.0.jar"),
        ("spark.sql.shuffle.partitions", "2"),
        ("spark.redaction.regex", "password"),
    ],
)
def test_what_is_no_secret_is_not_taken_for_one(key: str, value: str) -> None:
    assert not is_secret(key, value)

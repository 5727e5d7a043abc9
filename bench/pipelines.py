"""The cases of pipelines: the same Spark, the same jobs, beside two brokers."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as dataset
from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from bench import spark, topics
from bench.model import Case, Criterion, Kind, Measures, Scale, cpu
from bench.process import Spent
from bench.rdkafka import ClientFailed
from penstock.pipeline.sinks.topic import BULK
from penstock.pipeline.sources.topics import BATCH_WAIT, CHOSEN
from tests.oracle.nodes import Node, PenstockNode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Options = Mapping[str, str]

PARTITIONS = 4
FILES = 8
SECONDS_MAX = 120
SCHEMA = "id bigint, at timestamp, user string, amount double, note string"
REAL_TIME_RATE = 100
FIRST_ROW = "first-row-of-all"


# -- data ---------------------------------------------------------------------------------------


@cache
def lines(rows: int) -> tuple[str, ...]:
    """Orders as JSON, about 150 bytes each."""
    chance = random.Random(rows)
    words = [chance.randbytes(6).hex() for _ in range(500)]
    return tuple(
        json.dumps(
            {
                "id": number,
                "at": f"2026-11-{1 + number % 28:02d}T{number % 24:02d}:00:00Z",
                "user": f"user-{chance.randrange(10_000)}",
                "amount": chance.randrange(100_000) / 100,
                "note": " ".join(chance.choices(words, k=4)),
            }
        )
        for number in range(rows)
    )


def megabytes(rows: int) -> float:
    return sum(map(len, lines(rows))) / 1e6


@cache
def files(rows: int) -> Path:
    """The rows as a folder of log files."""
    folder = spark.scratch() / f"logs-{rows}"
    folder.mkdir()
    for number in range(FILES):
        text = "\n".join(lines(rows)[number::FILES]) + "\n"
        (folder / f"{number}.log").write_text(text)
    return folder


@cache
def filled(bootstrap: str, topic: str, rows: int) -> str:
    """A topic with all rows."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    for line in lines(rows):
        while True:
            try:
                producer.produce(topic, line)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(SECONDS_MAX):
        raise ClientFailed("the topic could not be filled")
    return topic


_topic_of: dict[tuple[str, int], str] = {}


def source_topic(node: Node, rows: int) -> str:
    """This broker's topic with all rows, filled once."""
    key = (node.bootstrap, rows)
    if key not in _topic_of:
        _topic_of[key] = filled(node.bootstrap, topics.create(node, PARTITIONS), rows)
    return _topic_of[key]


def count(node: Node, topic: str) -> int:
    """Records of a topic that readers of committed ones see."""
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "bench", "enable.partition.eof": True,
         "isolation.level": "read_committed", "enable.auto.commit": False}
    )  # fmt: skip
    found, ended = 0, 0
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    deadline = time.monotonic() + SECONDS_MAX
    while ended < PARTITIONS and time.monotonic() < deadline:
        for message in consumer.consume(10_000, 1):
            ended += message.error() is not None
            found += message.error() is None
    consumer.close()
    return found


def _expect(found: int, rows: int, where: str) -> None:
    if found != rows:
        raise ClientFailed(f"{where} holds {found} of {rows} rows")


# -- cases --------------------------------------------------------------------------------------


def topic_to_parquet(node: Node, scale: Scale) -> Measures:
    """A topic of JSON into a folder of Parquet."""
    rows = scale.pipeline_rows
    topic, lake = source_topic(node, rows), spark.fresh("lake")
    spent = Spent.now(node.pid)
    seconds = spark.run(
        f"name: {{name}}\nbootstrap: {node.bootstrap}\n"
        f"{_orders(topic)}sinks: {{lake: {{parquet: {lake}}}}}\n"
    )
    used = spent.since()
    _expect(dataset.dataset(lake).count_rows(), rows, "the lake")
    return {"cpu": used, "rate": megabytes(rows) / seconds}


def files_to_topic(node: Node, scale: Scale) -> Measures:
    """A folder of lines into a topic, exactly once."""
    rows = scale.pipeline_rows
    topic, folder = topics.create(node, PARTITIONS), files(rows)
    spent = Spent.now(node.pid)
    seconds = spark.run(
        f"name: {{name}}\nbootstrap: {node.bootstrap}\n"
        f"sources: {{lines: {{files: {folder}}}}}\n"
        f"sinks: {{out: {{topic: {topic}, value: string}}}}\n"
    )
    used = spent.since()
    _expect(count(node, topic), rows, "the topic")
    topics.delete(node, topic)
    return {"cpu": used, "rate": megabytes(rows) / seconds}


def topic_to_topic(node: Node, scale: Scale) -> Measures:
    """Exactly once with ours on Penstock; Spark's own sink, at least once, on Kafka."""
    rows = scale.pipeline_rows
    source, topic = source_topic(node, rows), topics.create(node, PARTITIONS)
    if isinstance(node, PenstockNode):
        seconds = spark.run(
            f"name: {{name}}\nbootstrap: {node.bootstrap}\n"
            f"sources: {{orders: {{topic: {source}}}}}\n"
            f"sinks: {{out: {{topic: {topic}, value: string}}}}\n"
        )
    else:
        seconds = spark.run_plain(_plain_source(node, source), "kafka", **_plain_sink(node, topic))
    _expect(count(node, topic), rows, "the topic")
    topics.delete(node, topic)
    return {"rate": megabytes(rows) / seconds}


def real_time(node: Node, scale: Scale) -> Measures:
    """One record at a time through a pipeline in real-time mode, from producing to consuming."""
    source, topic = topics.create(node, 1), topics.create(node, 1)
    from penstock.pipeline.running.run import run_pipeline
    from penstock.pipeline.running.signals import Stop
    from penstock.pipeline.spec.read import read_pipeline

    file = spark.fresh("real-time") / "bench.yml"
    file.write_text(
        f"name: bench-{file.parent.name}\nbootstrap: {node.bootstrap}\n"
        f"sources: {{a: {{topic: {source}, from: latest}}}}\n"
        f"sinks: {{b: {{topic: {topic}, value: string, delivery: at-least-once}}}}\n"
        "trigger: {real_time: 5 minutes}\n"
    )
    stop = Stop()
    work = partial(
        run_pipeline, read_pipeline(str(file), os.environ), session=spark.session(), stop=stop
    )
    thread = threading.Thread(target=work)
    thread.start()
    try:
        waits = sorted(_ping(node, source, topic, scale.real_time_records))
    finally:
        stop.ask()
        thread.join(SECONDS_MAX)
    for each in (source, topic):
        topics.delete(node, each)
    return {
        "p50": 1000 * waits[len(waits) // 2],
        "p99": 1000 * waits[int(len(waits) * 0.99)],
    }


def _ping(node: Node, source: str, topic: str, records: int) -> list[float]:
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "bench", "fetch.wait.max.ms": 10,
         "enable.auto.commit": False}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    consumer.poll(1)
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0})
    deadline = time.monotonic() + SECONDS_MAX
    passed = False
    while not passed:  # until the query runs
        producer.produce(source, b"wake up")
        producer.flush(10)
        passed = consumer.poll(0.5) is not None
        if time.monotonic() > deadline:
            raise ClientFailed("nothing came through the pipeline")
    while consumer.poll(1) is not None:
        pass
    waits = []
    for number in range(records):
        begin = time.monotonic()
        producer.produce(source, str(number).encode())
        producer.poll(0)
        message = consumer.poll(30)
        if message is None or message.value() != str(number).encode():
            raise ClientFailed(f"record {number} did not come through")
        waits.append(time.monotonic() - begin)
        time.sleep(max(0.0, 1 / REAL_TIME_RATE - waits[-1]))
    consumer.close()
    return waits


def end_to_end(node: Node, scale: Scale) -> Measures:
    """Log to topic to lake by pipelines, by Spark's defaults, and the raw file to Parquet.

    Beside them Spark's own jobs with the options of pipelines: what those give by themselves, to
    who wants neither exactly once nor every record looked at.
    """
    rows = scale.pipeline_rows
    ours = _ours_end_to_end(node, rows)
    plain = _plain_end_to_end(node, rows)
    options = _plain_end_to_end(node, rows, {**CHOSEN, **BATCH_WAIT}, BULK)
    size = megabytes(rows)
    return {
        "gain": plain / ours,
        "options": plain / options,
        "rate": size / ours / spark.CORES,
        "raw": size / _raw(rows) / spark.CORES,
    }


def _ours_end_to_end(node: Node, rows: int) -> float:
    topic, lake = topics.create(node, PARTITIONS), spark.fresh("lake")
    begin = f"name: {{name}}\nbootstrap: {node.bootstrap}\n"
    seconds = spark.run(
        f"{begin}sources: {{lines: {{files: {files(rows)}}}}}\n"
        f"sinks: {{out: {{topic: {topic}, value: string}}}}\n"
    )
    seconds += spark.run(f"{begin}{_orders(topic)}sinks: {{lake: {{parquet: {lake}}}}}\n")
    _expect(dataset.dataset(lake).count_rows(), rows, "the lake")
    topics.delete(node, topic)
    return seconds


def _orders(topic: str) -> str:
    """The source that reads the topic's JSON."""
    value = f"{{format: json, schema: '{SCHEMA}'}}"
    return f"sources: {{orders: {{topic: {topic}, value: {value}}}}}\n"


def _plain_end_to_end(
    node: Node, rows: int, reading: Options | None = None, writing: Options | None = None
) -> float:
    from pyspark.sql import functions as F

    topic, lake = topics.create(node, PARTITIONS), spark.fresh("plain-lake")
    text = spark.session().readStream.format("text").load(str(files(rows)))
    seconds = spark.run_plain(text, "kafka", **_plain_sink(node, topic), **(writing or {}))
    parsed = _plain_source(node, topic, reading).select(
        F.from_json(F.col("value").cast("string"), SCHEMA).alias("row")
    )
    seconds += spark.run_plain(parsed.select("row.*"), "parquet", path=str(lake))
    topics.delete(node, topic)
    return seconds


def _raw(rows: int) -> float:
    """Seconds for the files into Parquet without a broker: what this Spark can do at all."""
    begin = time.monotonic()
    frame = spark.session().read.schema(SCHEMA).json(str(files(rows)))
    frame.write.parquet(str(spark.fresh("raw") / "lake"))
    return time.monotonic() - begin


def _plain_source(node: Node, topic: str, more: Options | None = None) -> DataFrame:
    reader = spark.session().readStream.format("kafka").option("subscribe", topic)
    reader = reader.option("kafka.bootstrap.servers", node.bootstrap).options(**(more or {}))
    return reader.option("startingOffsets", "earliest").load()


def _plain_sink(node: Node, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": node.bootstrap, "topic": topic}


def first_row(node: Node, _: Scale) -> Measures:
    """From the command to the first row on the terminal, against a bare PySpark script."""
    topic = topics.create(node, 1)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(topic, FIRST_ROW)
    producer.flush(30)
    folder = spark.fresh("first-row")
    pipeline = folder / "first.yml"
    pipeline.write_text(
        f"name: {folder.name}\nbootstrap: {node.bootstrap}\n"
        f"sources: {{a: {{topic: {topic}}}}}\nsinks: {{out: {{console: 5}}}}\n"
    )
    script = folder / "plain.py"
    script.write_text(_plain_script(node, topic, folder))
    ours = _until_row([sys.executable, "-m", "penstock", "pipeline", "run", str(pipeline)])
    plain = _until_row([sys.executable, str(script)])
    topics.delete(node, topic)
    return {"ours": ours, "plain": plain, "more": ours - plain}


def _plain_script(node: Node, topic: str, folder: Path) -> str:
    from penstock.pipeline.spark.jars import jars_for

    jars = ",".join(str(each) for each in jars_for(frozenset()))
    return (
        "from pyspark.sql import SparkSession\n"
        f"spark = SparkSession.builder.master('local[*]').config('spark.jars', '{jars}')"
        ".getOrCreate()\n"
        "rows = spark.readStream.format('kafka').option('kafka.bootstrap.servers', "
        f"'{node.bootstrap}').option('subscribe', '{topic}')"
        ".option('startingOffsets', 'earliest').load()\n"
        "rows.selectExpr('cast(value as string)').writeStream.format('console')"
        f".option('checkpointLocation', '{folder}/plain').start().awaitTermination()\n"
    )


def _until_row(command: list[str]) -> float:
    begin = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert child.stdout is not None
        for line in child.stdout:
            if FIRST_ROW in line:
                return time.monotonic() - begin
    finally:
        child.terminate()
        child.wait(SECONDS_MAX)
    raise ClientFailed(f"{' '.join(command)} ended without a row")


_MB = "MB/s"

CASES = [
    Case(
        "pipeline-parquet", "topic to Parquet", topic_to_parquet,
        (cpu(1 / 3), Criterion("rate", "throughput", _MB, Kind.RATIO_MIN, 1.0)),
    ),
    Case(
        "pipeline-files", "files to topic, exactly once", files_to_topic,
        (Criterion("rate", "throughput", _MB, Kind.RATIO_MIN, 1.0),),
    ),
    Case(
        "pipeline-topic", "topic to topic: ours, exactly once, beside Spark's sink on Kafka",
        topic_to_topic, (Criterion("rate", "throughput", _MB, Kind.RATIO_MIN, 0.7),),
    ),
    Case(
        "pipeline-real-time", "topic to topic in real-time mode", real_time,
        (Criterion("p50", "latency p50", "ms", Kind.RATIO_MAX, 1.0),
         Criterion("p99", "latency p99", "ms", Kind.RATIO_MAX, 1.0)),
    ),
    Case(
        "pipeline-end-to-end", "log to topic to lake", end_to_end,
        (Criterion("gain", "speed against Spark's default settings", "x", Kind.OWN_MIN, 1.5),
         Criterion("options", "Spark's own jobs with a pipeline's options, against its defaults",
                   "x", Kind.REPORTED, 0.0),
         Criterion("rate", "throughput per core", _MB, Kind.RATIO_MIN, 1.0),
         Criterion("raw", "the same files into Parquet without a broker, per core", _MB,
                   Kind.REPORTED, 0.0)),
    ),
    Case(
        "pipeline-first-row", "from the command to the first row", first_row,
        (Criterion("more", "time, more than a bare PySpark script takes", "s", Kind.OWN_MAX, 1.0),),
        warm_ups=0,
    ),
]  # fmt: skip

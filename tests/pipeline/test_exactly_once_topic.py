"""A pipeline from topic to topic, while driver, executors and broker are killed: each record once.

PENSTOCK_PIPELINE_KILLS=12 makes it a long run; PENSTOCK_TEST_SEED replays its choices.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.testing import Broker
from tests.pipeline.sinks.topic_scene import create, read_all
from tests.pipeline.spark.cluster import Cluster

KILLS = int(os.environ.get("PENSTOCK_PIPELINE_KILLS", "2"))
BATCH = 1_500
PER_KILL = 3 * BATCH
KEYS = 50
PARTITIONS = 4
SOURCE, SINK = "numbers", "copies"
PROGRESS_SECONDS_MAX = 600.0
"""How long a pipeline may take to write again, a start of Spark on a busy machine included."""

FILE = f"""\
name: copy
bootstrap: BOOTSTRAP
sources:
  {SOURCE}:
    topic: {SOURCE}
    batch_records_max: {BATCH}
sinks:
  out:
    topic: {SINK}
    key: _key
    value: string
on_error:
  policy: retry
"""
EXECUTOR = "CoarseGrainedExecutorBackend"


@pytest.mark.slow
@pytest.mark.timeout(900 + 120 * KILLS)
def test_each_record_is_in_the_topic_once_whatever_is_killed(
    spark_cluster: Cluster, tmp_path: Path
) -> None:
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", time.time_ns() % 1_000_000))
    print(f"PENSTOCK_TEST_SEED={seed} makes the same choices")
    chance = random.Random(seed)
    count = PER_KILL * (KILLS + 1)
    with Broker(data=tmp_path / "broker") as broker:
        feed(broker.bootstrap_servers, count)
        watch = Watch(broker.bootstrap_servers)
        pipeline = Run(tmp_path, broker.bootstrap_servers, spark_cluster)
        victims = Victims(chance, broker, pipeline, spark_cluster)
        try:
            for number in range(KILLS):
                pipeline.wait_for(watch, PER_KILL * number + 1)
                # Somewhere in a batch, between two, or while Spark is still starting.
                time.sleep(chance.uniform(0, 2))
                victims.kill_one(number)
            pipeline.wait_for(watch, count)
        finally:
            pipeline.kill()
            watch.close()
        print(f"killed: {dict(victims.killed)}; the pipeline was started {pipeline.lives} times")
        check(broker.bootstrap_servers, count)


def feed(bootstrap: str, count: int) -> None:
    """Numbers, each with one of the keys, in order."""
    create(bootstrap, SOURCE, PARTITIONS)
    create(bootstrap, SINK, PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(SOURCE, str(number), f"key {number % KEYS}")
        producer.poll(0)
    assert producer.flush(60) == 0


def check(bootstrap: str, count: int) -> None:
    """Every number once, and in order for each key."""
    records = read_all(bootstrap, SINK)
    assert len(records) == count
    assert {int(each.value()) for each in records} == set(range(count))
    by_key: dict[bytes, list[int]] = defaultdict(list)
    for each in records:
        by_key[each.key()].append(int(each.value()))
    assert len(by_key) == KEYS
    for key, numbers in by_key.items():
        assert numbers == sorted(numbers), f"{key!r} lost its order"


class Run:
    """`penstock pipeline run` in a session of its own, started again whenever it ends."""

    def __init__(self, folder: Path, bootstrap: str, cluster: Cluster) -> None:
        self._folder = folder
        file = folder / "copy.yml"
        file.write_text(FILE.replace("BOOTSTRAP", bootstrap))
        self._command = [sys.executable, "-m", "penstock", "pipeline", "run", str(file)]
        self._command += ["--master", cluster.url, "-o", "json"]
        for key, value in cluster.settings.items():
            self._command += ["--conf", f"{key}={value}"]
        self.lives = 0
        self._start()

    def _start(self) -> None:
        self.lives += 1
        state = {**os.environ, "PENSTOCK_STATE": str(self._folder / "state")}
        with open(self._folder / f"run-{self.lives}.log", "wb") as log:
            self._process = subprocess.Popen(
                self._command, start_new_session=True, stdout=log, stderr=log, env=state
            )

    def wait_for(self, watch: Watch, count: int) -> None:
        """Until the sink has at least so many records, for those who read what is committed."""
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        best = 0
        while (found := watch.look()) < count:
            if self._process.poll() is not None:
                self._start()
            if found > best:
                best, deadline = found, time.monotonic() + PROGRESS_SECONDS_MAX
            assert time.monotonic() < deadline, f"only {found} of {count} records:\n{self._log()}"

    def kill(self) -> None:
        """The driver, Java and Python. Its executors live on until they notice."""
        for pid in _pids():
            if _session(pid) == self._process.pid:
                _kill(pid)
        self._process.wait()

    def _log(self) -> str:
        return (self._folder / f"run-{self.lives}.log").read_text(errors="replace")[-4000:]


class Victims:
    """Who is killed: each kind in turn at first, then any."""

    def __init__(
        self, chance: random.Random, broker: Broker, pipeline: Run, cluster: Cluster
    ) -> None:
        self._chance = chance
        self._workers = cluster.pids[1:]
        self._broker = broker
        self._pipeline = pipeline
        self.killed: Counter[str] = Counter()
        self._ways: list[Callable[[], None]] = [self.driver, self.broker, self.executor]

    def kill_one(self, number: int) -> None:
        way = self._ways[number] if number < len(self._ways) else self._chance.choice(self._ways)
        way()
        self.killed[way.__name__] += 1

    def driver(self) -> None:
        self._pipeline.kill()

    def executor(self) -> None:
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        while not (running := [pid for pid in _pids() if self._is_executor(pid)]):
            assert time.monotonic() < deadline, "there is no executor to kill"
            time.sleep(0.2)
        _kill(self._chance.choice(running))

    def _is_executor(self, pid: int) -> bool:
        return _parent(pid) in self._workers and EXECUTOR in _command(pid)

    def broker(self) -> None:
        self._broker.kill()
        time.sleep(self._chance.uniform(0, 2))
        self._broker.start()


class Watch:
    """A reader of the sink that stays, and counts what is committed."""

    def __init__(self, bootstrap: str) -> None:
        self._reader = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "watch",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._reader.assign([TopicPartition(SINK, each, 0) for each in range(PARTITIONS)])
        self.found = 0

    def look(self) -> int:
        while some := self._reader.consume(10_000, 0.2):
            self.found += sum(each.error() is None for each in some)
        return self.found

    def close(self) -> None:
        self._reader.close()


def _pids() -> Iterator[int]:
    yield from (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it was faster

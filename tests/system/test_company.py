"""`penstock up --brokers N`: several brokers of one machine, kept running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

READY = "penstock is ready on "


class Company:
    """The command, running."""

    def __init__(self, data: Path, *words: str) -> None:
        self._log = open(data.with_suffix(".log"), "w+")  # noqa: SIM115  # closed with the company
        command = [sys.executable, "-m", "penstock", "up", "--data", str(data), *words]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(READY), line + self.log
        self.bootstrap = line.removeprefix(READY).strip()

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text()

    @property
    def pids(self) -> list[int]:
        """Of the brokers, the first one first."""
        found = subprocess.run(
            ["pgrep", "-P", str(self.process.pid), "-f", "penstock.app.member"],
            capture_output=True,
            text=True,
            check=True,
        )
        return sorted(int(word) for word in found.stdout.split())

    def stop(self) -> int:
        self.process.terminate()
        status = self.process.wait(60)
        self._log.close()
        return status


@contextmanager
def company(data: Path, *words: str) -> Iterator[Company]:
    running = Company(data, *words)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.stop()


def test_brokers_share_the_work_and_who_dies_comes_back_with_what_it_had(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with company(data, "--brokers", "2", "--port", "0") as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("orders", 4, 1)])["orders"].result(30)
        assert _leaders(admin, "orders") == {1, 2}
        _produce(running.bootstrap, range(200))
        os.kill(running.pids[-1], signal.SIGKILL)
        _produce(running.bootstrap, range(200, 400))
        assert _consume(running.bootstrap, 400) == set(range(400))
        assert "it starts again in" in running.log
        before = running.pids
        assert running.stop() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in before)
    with company(data, "--brokers", "3", "--port", "0") as running:
        assert _consume(running.bootstrap, 400) == set(range(400))


def test_brokers_end_with_their_supervisor_however_badly_it_ends(tmp_path: Path) -> None:
    with company(tmp_path / "data", "--brokers", "2", "--port", "0") as running:
        pids = running.pids
        running.process.kill()
        running.process.wait(10)
        deadline = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            assert time.monotonic() < deadline, "brokers outlive their supervisor"
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("given", "words", "said"),
    [
        ("meta.properties", ["--brokers", "2"], "holds the data of one broker"),
        ("cluster.properties", [], "say --brokers"),
        ("cluster.properties", ["--brokers", "2"], "give --brokers 3 or more"),
        ("nothing", ["--brokers", "8", "--port", "65530"], "leaves no room for 8 brokers"),
    ],
)
def test_a_directory_of_another_kind_is_refused(
    tmp_path: Path, given: str, words: list[str], said: str
) -> None:
    (tmp_path / given).write_text("cluster.id=x\ncontrollers=3\nversion=1\n")
    command = [sys.executable, "-m", "penstock", "up", "--data", str(tmp_path), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert said in ended.stderr


def _produce(bootstrap: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in numbers:
        producer.produce("orders", str(number).encode(), key=str(number))
    assert producer.flush(60) == 0


def _consume(bootstrap: str, count: int) -> set[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"readers-{time.time_ns()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    found: list[int] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(int(message.value()))
    consumer.close()
    assert len(found) == len(set(found))
    return set(found)


def _leaders(admin: AdminClient, topic: str) -> set[int]:
    """Who leads a topic's partitions, once the broker that is asked has heard of them."""
    deadline = time.monotonic() + 30
    while not (partitions := admin.list_topics(topic, timeout=30).topics[topic].partitions):
        assert time.monotonic() < deadline, f"{topic} was created, and nobody knows it"
        time.sleep(0.05)
    return {each.leader for each in partitions.values()}

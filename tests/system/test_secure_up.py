"""`penstock up --secure`: who pastes what it prints gets in, and nobody else does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.unit.cli.runner import Penstock

READY = "penstock is ready on "
SECONDS_MAX = 30


class Secure:
    """The command, running."""

    def __init__(self, data: Path, *words: str) -> None:
        self.data = data
        self._log = data.with_suffix(".log")
        command = [sys.executable, "-m", "penstock", "up", "--data", str(data), *words]
        began = time.monotonic()
        with open(self._log, "a") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.seconds = time.monotonic() - began
        assert line.startswith(READY), line + self.log
        self.bootstrap = line.removeprefix(READY).strip()

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def pasted(self) -> dict[str, Any]:
        """The settings for confluent-kafka, run as they were printed."""
        found = re.findall(r"^    settings = \{.*?^    \}", self.log, re.DOTALL | re.MULTILINE)
        names: dict[str, Any] = {}
        exec(textwrap.dedent(found[-1]), names)
        settings: dict[str, Any] = names["settings"]
        return settings

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


@contextmanager
def secure(data: Path, *words: str) -> Iterator[Secure]:
    running = Secure(data, "--secure", *words)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()


def read_all(settings: dict[str, Any], topic: str, count: int) -> list[bytes]:
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
    consumer.close()
    return values


def test_a_client_with_what_was_printed_gets_in_and_nobody_else(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with secure(data, "--port", "0") as node:
        settings = node.pasted
        assert settings["bootstrap.servers"] == node.bootstrap
        producer = Producer(settings)
        producer.produce("orders", b"first")
        assert producer.flush(SECONDS_MAX) == 0

        strangers = (
            {"sasl.password": "a guess"},
            {"security.protocol": "PLAINTEXT"},
            {"security.protocol": "SASL_PLAINTEXT"},
            {"security.protocol": "SSL"},
        )
        for stranger in strangers:
            admin = AdminClient({**settings, **stranger, "log_level": 0})
            with pytest.raises(KafkaException):
                admin.list_topics(timeout=1)
        assert node.process.poll() is None
        assert str(settings["sasl.password"]) not in node.log

        assert '"mechanism": "SCRAM-SHA-512", "principal": "User:admin"' in node.log
        assert node.stop() == 0

    with secure(data, "--port", "0") as again:
        assert {**again.pasted, "bootstrap.servers": ""} == {**settings, "bootstrap.servers": ""}
        assert read_all(again.pasted, "orders", 1) == [b"first"]
        again.stop()


def test_the_commands_work_with_the_file_that_was_written(tmp_path: Path) -> None:
    with secure(tmp_path / "data", "--port", "0") as node:
        penstock = Penstock(tmp_path)
        penstock.environment["PENSTOCK_COMMAND_CONFIG"] = str(node.data / "admin.properties")
        penstock.out("topic", "create", "orders")
        assert penstock.out("topic", "list", "-q") == "orders\n"
        assert penstock.out("user", "list", "-q") == "admin\n"
        node.stop()


def test_a_secured_directory_is_not_opened_and_an_open_one_is_not_secured(tmp_path: Path) -> None:
    penstock = Penstock(tmp_path)
    with secure(tmp_path / "data", "--port", "0") as node:
        node.stop()
    refused = penstock("up", "--data", "data", "--port", "0")
    assert refused.returncode == 2
    assert "was begun with --secure" in refused.stderr
    refused = penstock("up", "--data", "data", "--port", "0", "--brokers", "2")
    assert refused.returncode == 2
    os.makedirs(tmp_path / "open")
    (tmp_path / "open" / "meta.properties").write_text("version=1\n")
    refused = penstock("up", "--data", "open", "--secure")
    assert refused.returncode == 2
    assert "started without --secure" in refused.stderr


def test_several_brokers_form_a_cluster_by_certificates(tmp_path: Path) -> None:
    with secure(tmp_path / "data", "--port", "0", "--brokers", "2") as cluster:
        settings = cluster.pasted
        admin = AdminClient(settings)
        topic = NewTopic("orders", 1, 2)
        admin.create_topics([topic])["orders"].result(SECONDS_MAX)
        producer = Producer({**settings, "acks": "all"})
        producer.produce("orders", b"kept twice")
        assert producer.flush(SECONDS_MAX) == 0
        partition = admin.list_topics("orders", timeout=SECONDS_MAX).topics["orders"].partitions[0]
        assert sorted(partition.isrs) == [1, 2]
        assert '"listener": "BROKER", "mechanism": "TLS", "principal": "User:CN=penstock"' in (
            cluster.log
        )
        assert cluster.stop() == 0


def test_the_example_gives_an_application_what_it_needs_and_no_more() -> None:
    example = Path(__file__).parents[2] / "examples" / "secure" / "applications.py"
    ran = subprocess.run(
        [sys.executable, str(example), "--embedded"], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "orders-placed: delivered",
        "salaries: TOPIC_AUTHORIZATION_FAILED",
        "orders-placed: _MSG_TIMED_OUT",
    ]

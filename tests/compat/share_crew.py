"""A topic that is shared, and Apache's verifiable consumers that share it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.oracle import apache

VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer"
END_SECONDS_MAX = 60


class Shared:
    """A topic, and a share group that begins at its beginning."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, replicas: int = 1) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.group = f"g-{uuid.uuid4().hex[:12]}"
        self.where = ("--bootstrap-server", bootstrap, "--topic", topic)
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        for made in self._admin.create_topics([NewTopic(topic, partitions, replicas)]).values():
            made.result(30)
        self.configure("share.auto.offset.reset", "earliest")

    def configure(self, name: str, value: str) -> None:
        """Set a key of the group."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, self.group, incremental_configs=[entry])
        for done in self._admin.incremental_alter_configs([resource]).values():
            done.result(30)

    def send(self, values: range, **options: Any) -> None:
        """Write numbers, and have them acknowledged."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", **options})
        for value in values:
            producer.produce(self.topic, str(value))
        assert producer.flush(60) == 0


class Verifiable:
    """A verifiable share consumer in a JVM that can be killed."""

    def __init__(self, shared: Shared, folder: Path, *options: str) -> None:
        self.events: list[dict[str, Any]] = []
        with open(folder / f"{uuid.uuid4().hex}.log", "ab") as errors:
            self._process = subprocess.Popen(
                [*apache.java(options=("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")), VERIFIABLE,
                 *shared.where, "--group-id", shared.group, "--verbose", *options],
                stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(json.JSONDecodeError):  # cut short by SIGKILL
                self.events.append(json.loads(line))

    @property
    def got(self) -> list[int]:
        """The values that were delivered to it."""
        seen = list(self.events)
        return [int(each["value"]) for each in seen if each["name"] == "record_data"]

    @property
    def acknowledged(self) -> int:
        seen = list(self.events)
        done = [each for each in seen if each["name"] == "offsets_acknowledged"]
        return sum(each["count"] for each in done if each["success"])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(END_SECONDS_MAX)
        self._reader.join(END_SECONDS_MAX)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextlib.contextmanager
def verifiable(shared: Shared, folder: Path, *options: str) -> Iterator[Verifiable]:
    consumer = Verifiable(shared, folder, *options)
    try:
        yield consumer
    finally:
        consumer.kill()

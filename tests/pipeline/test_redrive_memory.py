"""How long a redrive remembers which letters of a pipeline it has sent."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.cli.output import Shape
from penstock.cli.pipeline_redrive import redrive as command
from penstock.pipeline.sinks.dead_letters import REASON, TOPIC
from penstock.testing import Broker
from tests.pipeline.sinks.topic_scene import create, read_all

NINE_YEARS_SECONDS = 9 * 365 * 86_400


class Shop:
    """A pipeline whose dead letters lie in `NAME.dlq`."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.name = f"p-{uuid.uuid4().hex[:8]}"
        self.source = f"{self.name}.in"
        self.file = folder / "pipeline.yml"
        self.file.write_text(
            f"name: {self.name}\nbootstrap: {bootstrap}\n"
            f"sources: {{numbers: {{topic: {self.source}}}}}\nsinks: {{out: {{console: 1}}}}\n"
        )
        create(bootstrap, self.source, 1)
        create(bootstrap, f"{self.name}.dlq", 2)

    def bury(self, reason: str, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        headers: list[tuple[str, str | bytes | None]] = [(TOPIC, self.source), (REASON, reason)]
        producer.produce(f"{self.name}.dlq", b"v", partition=partition, headers=headers)
        assert producer.flush(30) == 0

    def memory(self) -> dict[bytes, bytes]:
        """What `__consumer_offsets` says last of each partition of the letters."""
        group = f"penstock.pipeline.{self.name}:redrive".encode()
        found = {}
        for record in read_all(self.bootstrap, "__consumer_offsets"):
            # A key begins with a version: 0 and 1 are offsets, 2 the group itself.
            if group in (key := record.key() or b"") and key[:2] in (b"\0\0", b"\0\1"):
                found[key] = record.value() or b""
        return found


@pytest.fixture
def shop(pipeline_broker: Broker, tmp_path: Path) -> Shop:
    return Shop(pipeline_broker.bootstrap_servers, tmp_path)


def test_what_was_sent_is_remembered_for_longer_than_offsets_are_kept(shop: Shop) -> None:
    shop.bury("wrong", partition=0)
    shop.bury("wrong", partition=1)
    command(str(shop.file))
    assert len(shop.memory()) == 2
    for mark in shop.memory().values():
        # The last eight bytes of version 1 say when it expires; a later version has no such time.
        assert mark[:2] == b"\0\1"
        assert int.from_bytes(mark[-8:], "big") > (time.time() + NINE_YEARS_SECONDS) * 1000


def test_a_dry_run_leaves_no_memory(shop: Shop) -> None:
    shop.bury("wrong")
    command(str(shop.file), dry_run=True)
    assert shop.memory() == {}


def test_what_cannot_be_remembered_for_long_is_told_and_was_sent_all_the_same(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.cli import dlq_memory
    from penstock.cli.failure import Failure

    def refuse(*_: object) -> None:
        raise Failure("nobody keeps it")

    monkeypatch.setattr(dlq_memory, "keep", refuse)
    shop.bury("wrong")
    command(str(shop.file), output=Shape.JSON)
    told = capsys.readouterr()
    assert json.loads(told.out)["sent"] == {shop.source: 1}
    assert "nobody keeps it" in told.err

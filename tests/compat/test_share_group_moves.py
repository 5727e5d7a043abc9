"""A data directory with a share group in it goes from Apache Kafka to Penstock, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.testing.share_client import ShareClient
from tests.oracle.nodes import ApacheNode, Node, PenstockNode

pytestmark = pytest.mark.java

RECORDS = 20


def fill(node: Node) -> None:
    where: dict[str, Any] = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(where)
    admin.create_topics([NewTopic("moved", 2, 1)])["moved"].result(30)
    reset = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    group = ConfigResource(ResourceType.GROUP, "movers", incremental_configs=[reset])
    for done in admin.incremental_alter_configs([group]).values():
        done.result(30)
    producer = Producer(where)
    for number in range(RECORDS):
        producer.produce("moved", b"value", partition=number % 2)
    assert producer.flush(30) == 0


def read(node: Node, count: int) -> list[tuple[int, int]]:
    """A member accepts so many records, and leaves the next one as it was."""
    seen: list[tuple[int, int]] = []
    with ShareClient(node.bootstrap, "movers", ["moved"], records_max=1, strict=True) as client:
        while len(seen) < count:
            taken = client.poll(30)
            assert taken, f"only {len(seen)} of {count} records came"
            client.acknowledge(taken)
            seen += [(it.partition, it.offset) for it in taken]
    return seen


def test_a_share_group_goes_on_in_another_kind_of_node(tmp_path: Path) -> None:
    data = tmp_path / "data"
    apache = ApacheNode(tmp_path / "apache", data=data)
    penstock = PenstockNode(tmp_path / "penstock", data=data, port=apache.port)
    seen = []
    try:
        apache.start()
        fill(apache)
        seen += read(apache, 7)
        apache.stop()
        penstock.start()
        seen += read(penstock, 6)
        penstock.stop()
        apache.start()
        seen += read(apache, 7)
    finally:
        apache.close()
        penstock.close()
    assert sorted(seen) == [(partition, it) for partition in (0, 1) for it in range(RECORDS // 2)]

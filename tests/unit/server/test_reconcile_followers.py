"""A broker follows what others lead, as the metadata says, and stops when it says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.app.node import Node
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.topics import DIRECTORY_UNASSIGNED
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.replica.fetching import Following
from penstock.replica.partition import Partition
from penstock.server.broker import Broker
from tests.unit.server.asking import asking, batch, port_of, running_node

OWN, OTHER, THIRD = 1, 2, 3


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    directories = {"log.dirs": f"{tmp_path}/one,{tmp_path}/two"}
    async with running_node(tmp_path, directories) as made:
        yield made


@pytest.fixture
async def topic_id(node: Node) -> bytes:
    async with asking(port_of(node)) as asker:
        made = await asker.create("t")
        assert (await asker.produce("t", batch(5))).error_code == ErrorCode.NONE
        return made


def tell(broker: Broker, *records: Any) -> None:
    """The metadata says more, whoever decided it."""
    delta = MetadataDelta(broker.image)
    for record in records:
        delta.replay(record)
    broker.on_image(delta.apply(broker.image.offset + len(records), broker.image.epoch), delta)


def change(topic_id: bytes, **fields: Any) -> PartitionChangeRecord:
    nodes = fields.get("replicas")
    if nodes is not None:
        fields["directories"] = [DIRECTORY_UNASSIGNED] * len(nodes)
    return PartitionChangeRecord(topic_id=topic_id, partition_id=0, **fields)


def followed(broker: Broker) -> dict[str, Following]:
    return {str(partition): following for partition, following in broker.replication.lags()}


def hosted(broker: Broker, name: str = "t") -> Partition:
    return broker.hosted[name, 0]


async def test_what_another_broker_leads_is_followed_until_it_is_led_again(
    node: Node, topic_id: bytes
) -> None:
    broker = node.broker
    tell(broker, change(topic_id, replicas=[OWN, OTHER], isr=[OWN, OTHER], leader=OTHER))
    partition = hosted(broker)
    assert (partition.leading, partition.leader, partition.log.end) == (False, OTHER, 5)
    following = followed(broker)["t-0"]
    assert (following.leader, following.epoch) == (OTHER, 1)
    tell(broker, change(topic_id, leader=OWN))
    assert partition.leading and not followed(broker)


async def test_a_fetcher_goes_on_when_only_the_in_sync_set_changes(
    node: Node, topic_id: bytes
) -> None:
    broker = node.broker
    tell(broker, change(topic_id, replicas=[OWN, OTHER], isr=[OWN, OTHER], leader=OTHER))
    before = followed(broker)["t-0"]
    tell(broker, change(topic_id, isr=[OTHER]))
    assert followed(broker)["t-0"] is before
    assert hosted(broker).isr == (OTHER,)


async def test_a_new_leader_or_a_new_epoch_of_the_old_one_is_followed_anew(
    node: Node, topic_id: bytes
) -> None:
    broker = node.broker
    nodes = [OWN, OTHER, THIRD]
    tell(broker, change(topic_id, replicas=nodes, isr=nodes, leader=OTHER))
    tell(broker, change(topic_id, leader=THIRD))
    following = followed(broker)["t-0"]
    assert (following.leader, following.epoch) == (THIRD, 2)
    tell(broker, change(topic_id, leader=THIRD))
    assert (followed(broker)["t-0"].leader, followed(broker)["t-0"].epoch) == (THIRD, 3)


async def test_without_a_leader_nobody_is_followed(node: Node, topic_id: bytes) -> None:
    broker = node.broker
    tell(broker, change(topic_id, replicas=[OWN, OTHER], isr=[OTHER], leader=OTHER))
    tell(broker, change(topic_id, leader=-1))
    assert not followed(broker)
    assert not hosted(broker).leading


@pytest.mark.parametrize("how", ["taken away", "topic deleted"])
async def test_a_replica_that_is_gone_is_deleted(node: Node, topic_id: bytes, how: str) -> None:
    broker = node.broker
    tell(broker, change(topic_id, replicas=[OWN, OTHER], isr=[OTHER], leader=OTHER))
    if how == "taken away":
        tell(broker, change(topic_id, replicas=[OTHER], isr=[OTHER]))
    else:
        tell(broker, RemoveTopicRecord(topic_id=topic_id))
    assert not broker.hosted and not broker.store.logs and not followed(broker)


async def test_a_replica_that_is_new_here_begins_empty_and_follows(node: Node) -> None:
    broker = node.broker
    new_id = b"n" * 16
    tell(
        broker,
        TopicRecord(name="new", topic_id=new_id),
        PartitionRecord(
            topic_id=new_id,
            partition_id=0,
            replicas=[OTHER, OWN],
            isr=[OTHER],
            leader=OTHER,
            leader_epoch=7,
            partition_epoch=9,
            directories=[DIRECTORY_UNASSIGNED] * 2,
        ),
    )
    assert hosted(broker, "new").log.end == 0
    assert followed(broker)["new-0"].epoch == 7


@pytest.mark.parametrize("counted_on", [False, True])
async def test_with_a_directory_offline_only_replicas_that_nobody_counts_on_begin_empty(
    node: Node, counted_on: bool
) -> None:
    broker = node.broker
    broker.store.fail_directory(broker.store.directories[1], OSError("gone"))
    new_id = b"n" * 16
    tell(
        broker,
        TopicRecord(name="new", topic_id=new_id),
        PartitionRecord(
            topic_id=new_id,
            partition_id=0,
            replicas=[OTHER, OWN],
            isr=[OTHER, OWN] if counted_on else [OTHER],
            leader=OTHER,
            leader_epoch=7,
            partition_epoch=9,
            directories=[DIRECTORY_UNASSIGNED] * 2,
        ),
    )
    assert (("new", 0) in broker.hosted) is not counted_on


async def test_a_directory_that_fails_takes_its_followers_out_of_their_fetchers(
    node: Node, topic_id: bytes
) -> None:
    broker = node.broker
    tell(broker, change(topic_id, replicas=[OWN, OTHER], isr=[OTHER], leader=OTHER))
    directory = broker.store.directory_of(hosted(broker).log)
    broker.store.fail_directory(directory, OSError("gone"))
    assert hosted(broker).offline and not followed(broker)
    tell(broker, change(topic_id, leader=OTHER))
    assert not followed(broker)

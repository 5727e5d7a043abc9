"""One request may not name so much that everybody else waits, nor one thing over and over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.protocol.generated import offset_fetch
from penstock.protocol.generated.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from penstock.protocol.generated.describe_groups import DescribeGroupsRequest
from penstock.protocol.generated.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.protocol.generated.describe_transactions import DescribeTransactionsRequest
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
from penstock.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from penstock.protocol.message import Message
from penstock.server.dispatch import COORDINATED_MAX, ITEMS_MAX, PARTS_MAX
from tests.unit.server.asking import Asker, asking, port_of, question, running_node

Node = tuple[int, Asker]


@pytest.fixture(name="node")
async def _node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        yield port_of(node), asker


def names(count: int) -> list[str]:
    return [f"{number:x}" for number in range(count)]


def groups(count: int) -> list[offset_fetch.OffsetFetchRequestGroup]:
    return [offset_fetch.OffsetFetchRequestGroup(group_id=name) for name in names(count)]


def topics(count: int) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names(count)]


def creatable(count: int) -> list[CreatableTopic]:
    return [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names(count)
    ]


def marker(count: int) -> WritableTxnMarker:
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=list(range(count)))
    return WritableTxnMarker(producer_id=1, topics=[topic])


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (FindCoordinatorRequest(coordinator_keys=names(COORDINATED_MAX + 1)), 4),
        (DescribeGroupsRequest(groups=names(COORDINATED_MAX + 1)), 4),
        (DescribeGroupsRequest(groups=names(COORDINATED_MAX + 1)), 5),
        (ConsumerGroupDescribeRequest(group_ids=names(COORDINATED_MAX + 1)), 1),
        (DescribeTransactionsRequest(transactional_ids=names(COORDINATED_MAX + 1)), 0),
        (offset_fetch.OffsetFetchRequest(groups=groups(COORDINATED_MAX + 1)), 8),
        (MetadataRequest(topics=topics(ITEMS_MAX + 1), allow_auto_topic_creation=False), 9),
        (CreateTopicsRequest(topics=creatable(COORDINATED_MAX + 1), validate_only=True), 7),
        (WriteTxnMarkersRequest(markers=[marker(PARTS_MAX + 1)]), 1),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Message) else each,
)
async def test_who_names_too_much_at_once_is_hung_up_on(
    node: Node, request_: Message, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    port, bystander = node
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(question(request_, version))
    async with asyncio.timeout(20):
        assert await reader.read(1) == b""
    writer.close()
    assert "at once" in caplog.text
    assert await bystander.ask(MetadataRequest(topics=[]), 12)


async def test_a_great_many_names_are_answered(node: Node) -> None:
    _, asker = node
    found = await asker.ask(FindCoordinatorRequest(coordinator_keys=names(2000), key_type=0), 4)
    assert [each.key for each in found.coordinators] == names(2000)


async def test_what_is_named_over_and_over_is_described_once(node: Node) -> None:
    _, asker = node
    topic_id = await asker.create("t", 3)
    again = [MetadataRequestTopic(topic_id=topic_id, name=name) for name in (None, "a", "b")]
    (topic,) = (await asker.ask(MetadataRequest(topics=again), 12)).topics
    assert (topic.name, len(topic.partitions)) == ("t", 3)
    for request, version, field in _REPEATED:
        found = getattr(await asker.ask(request, version), field)
        assert len(found) == 2, type(request)


_GROUP = offset_fetch.OffsetFetchRequestGroup

_REPEATED: tuple[tuple[Message, int, str], ...] = (
    (DescribeGroupsRequest(groups=["g", "h", "g", "g"]), 5, "groups"),
    (ConsumerGroupDescribeRequest(group_ids=["g", "h", "g", "g"]), 1, "groups"),
    (DescribeTransactionsRequest(transactional_ids=["t", "u", "t"]), 0, "transaction_states"),
    (FindCoordinatorRequest(coordinator_keys=["g", "h", "g"]), 4, "coordinators"),
    (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=2, resource_name=each, configuration_keys=None
                )
                for each in "tutt"
            ]
        ),
        4,
        "results",
    ),
    (
        offset_fetch.OffsetFetchRequest(
            groups=[_GROUP(group_id=each, topics=None) for each in "ghgg"]
        ),
        8,
        "groups",
    ),
)


async def test_producers_of_a_partition_are_described_once(node: Node) -> None:
    _, asker = node
    await asker.create("t", 2)
    asked = [TopicRequest(name="t", partition_indexes=[0, 0, 1]), *[_all_of_t()] * 3]
    answer: Any = await asker.ask(DescribeProducersRequest(topics=asked), 0)
    told = [each.partition_index for topic in answer.topics for each in topic.partitions]
    assert told == [0, 1]


def _all_of_t() -> TopicRequest:
    return TopicRequest(name="t", partition_indexes=[1, 0])

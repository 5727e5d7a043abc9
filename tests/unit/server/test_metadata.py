"""Metadata through a whole node, and what it says of nodes that are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.metadata.cluster import BrokerImage, ClusterImage, Endpoint
from penstock.metadata.image import MetadataImage
from penstock.metadata.topics import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    PartitionImage,
)
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from penstock.server.leadership import Reachable
from tests.unit.server.asking import Asker, asking_node, batch

VERSION = 12
HOME = b"d" * 16


async def topics(asker: Asker, *names: str | None, **options: Any) -> list[Any]:
    wanted = [MetadataRequestTopic(name=name) for name in names]
    response = await asker.ask(MetadataRequest(topics=wanted, **options), VERSION)
    found: list[Any] = response.topics
    return found


async def test_a_topic_that_is_asked_for_is_created_where_both_sides_allow_it(
    tmp_path: Path,
) -> None:
    async with asking_node(tmp_path, {"num.partitions": "3"}) as asker:
        (refused,) = await topics(asker, "t", allow_auto_topic_creation=False)
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        (created,) = await topics(asker, "t")
        assert (created.error_code, len(created.partitions)) == (ErrorCode.NONE, 3)
        assert (await asker.produce("t", batch(), index=2)).error_code == ErrorCode.NONE
        (again,) = await topics(asker, "t")
        assert again.topic_id == created.topic_id != ZERO_UUID


async def test_a_topic_that_is_asked_for_twice_is_told_once(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        topic_id = await asker.create("t")
        found = await topics(asker, "t", "u", "t", "u", allow_auto_topic_creation=False)
        assert [each.name for each in found] == ["t", "u"]
        wanted = [MetadataRequestTopic(name=None, topic_id=topic_id) for _ in range(2)]
        response = await asker.ask(MetadataRequest(topics=wanted), VERSION)
        assert [each.name for each in response.topics] == ["t"]


async def test_no_topic_is_created_where_the_node_forbids_it(tmp_path: Path) -> None:
    async with asking_node(tmp_path, {"auto.create.topics.enable": "false"}) as asker:
        (found,) = await topics(asker, "t")
        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_name_that_cannot_be_is_refused_and_the_others_are_created(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        found = await topics(asker, "good", "not a name!", "also-good", "..")
        invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
        assert [each.error_code for each in found] == [0, invalid, 0, invalid]


async def test_all_none_and_some_topics(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        ids = {name: await asker.create(name) for name in ("a", "b")}
        everything = await asker.ask(MetadataRequest(topics=None), VERSION)
        assert {each.name: each.topic_id for each in everything.topics} == ids
        assert await topics(asker) == []
        of_old = await asker.ask(MetadataRequest(topics=[]), 0)
        assert {each.name for each in of_old.topics} == {"a", "b"}
        by_id = [MetadataRequestTopic(name=None, topic_id=ids["b"])]
        found = await asker.ask(MetadataRequest(topics=by_id), VERSION)
        assert [each.name for each in found.topics] == ["b"]


def node(directories: tuple[bytes, ...] = (HOME,), fenced: bool = False) -> BrokerImage:
    endpoints = (Endpoint("PLAINTEXT", "host", 9092, 0),)
    return BrokerImage(1, HOME, 1, endpoints, {}, fenced=fenced, directories=directories)


def led_by_one(directory: bytes = HOME) -> PartitionImage:
    return PartitionImage((1,), (directory,), (1,), 1, 0, 0)


@pytest.mark.parametrize(
    ("broker", "directory", "listener", "offline"),
    [
        (node(), HOME, "PLAINTEXT", False),
        (node(), DIRECTORY_UNASSIGNED, "PLAINTEXT", False),
        (node(), DIRECTORY_MIGRATING, "PLAINTEXT", False),
        (node(), DIRECTORY_LOST, "PLAINTEXT", True),
        (node(), b"another directory"[:16], "PLAINTEXT", True),
        (node(()), b"another directory"[:16], "PLAINTEXT", False),  # it has never told any
        (node(()), DIRECTORY_LOST, "PLAINTEXT", True),
        (node(fenced=True), HOME, "PLAINTEXT", True),
        (node(), HOME, "SSL", True),
        (None, HOME, "PLAINTEXT", True),
    ],
)
def test_which_replicas_are_offline(
    broker: BrokerImage | None, directory: bytes, listener: str, offline: bool
) -> None:
    brokers = {} if broker is None else {1: broker}
    reachable = Reachable(MetadataImage(cluster=ClusterImage(brokers)), listener)
    assert reachable.offline_replicas(led_by_one(directory)) == ([1] if offline else [])


@pytest.mark.parametrize(("listener", "leader"), [("PLAINTEXT", 1), ("SSL", -1)])
def test_a_leader_is_named_to_those_who_can_reach_it(listener: str, leader: int) -> None:
    reachable = Reachable(MetadataImage(cluster=ClusterImage({1: node()})), listener)
    assert reachable.leader(led_by_one()) == leader

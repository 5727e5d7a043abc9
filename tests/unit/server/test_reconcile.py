"""A broker becomes what the metadata says: topics come, change, go and come again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.server import reconcile
from penstock.server.broker import Broker
from tests.unit.server.asking import Asker, asking, asking_node, batch, port_of, running_node

TOPIC = 2
SET = 0


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as made:
        yield made


@pytest.fixture
async def asker(node: Node) -> AsyncIterator[Asker]:
    async with asking(port_of(node)) as made:
        yield made


def broker_of(node: Node) -> Broker:
    assert node._broker is not None
    return node._broker


async def delete(asker: Asker, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=5000)
    assert (await asker.ask(request, 6)).responses[0].error_code == ErrorCode.NONE


async def test_a_topic_can_be_used_as_soon_as_its_creation_is_answered(asker: Asker) -> None:
    for number in range(20):
        await asker.create(f"t{number}", 3)
        assert (await asker.produce(f"t{number}", batch(), index=2)).error_code == ErrorCode.NONE


async def test_a_deleted_topic_is_gone_from_memory_and_from_disk(
    node: Node, asker: Asker, tmp_path: Path
) -> None:
    await asker.create("t", 2)
    await asker.produce("t", batch())
    await delete(asker, "t")
    answer = await asker.produce("t", batch())
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker = broker_of(node)
    assert not broker.hosted and not broker.hosted_by_id and not broker.store.logs
    assert not (tmp_path / "t-0").exists()


async def test_a_topic_that_is_created_again_under_its_name_begins_empty(asker: Asker) -> None:
    for _ in range(3):
        await asker.create("t")
        assert (await asker.produce("t", batch(5))).base_offset == 0
        await delete(asker, "t")


async def test_added_partitions_are_led_and_the_old_ones_keep_what_they_have(asker: Asker) -> None:
    await asker.create("t")
    await asker.produce("t", batch(5))
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=4, assignments=None)], timeout_ms=5000
    )
    assert (await asker.ask(request, 3)).results[0].error_code == ErrorCode.NONE
    offsets = [(await asker.produce("t", batch(), index=index)).base_offset for index in range(4)]
    assert offsets == [5, 0, 0, 0]


async def test_a_changed_configuration_counts_from_the_next_batch_on(asker: Asker) -> None:
    await asker.create("t")
    assert (await asker.produce("t", batch(10))).error_code == ErrorCode.NONE
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=TOPIC,
                resource_name="t",
                configs=[
                    AlterableConfig(name="max.message.bytes", config_operation=SET, value="100")
                ],
            )
        ]
    )
    assert (await asker.ask(request, 1)).responses[0].error_code == ErrorCode.NONE
    assert (await asker.produce("t", batch(10))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await asker.produce("t", batch(1))).error_code == ErrorCode.NONE


async def test_many_partitions_open_in_slices_between_which_others_are_served(
    node: Node, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "SLICE_SECONDS", 0.0)  # one partition at a time
    await asker.create("small")
    waits: list[float] = []

    async def serve_others() -> None:
        async with asking(port_of(node)) as other:
            while "big" not in broker_of(node).image.topics.by_name or not hosted_all():
                begun = asyncio.get_running_loop().time()
                assert (await other.produce("small", batch())).error_code == ErrorCode.NONE
                waits.append(asyncio.get_running_loop().time() - begun)

    def hosted_all() -> bool:
        return ("big", 999) in broker_of(node).hosted

    serving = asyncio.ensure_future(serve_others())
    await asker.create("big", 1000)
    await serving
    assert len(waits) > 5
    assert len(broker_of(node).hosted) == 1001


async def test_logs_that_the_metadata_does_not_know_are_set_aside_and_kept(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        await asker.create("t")
        await asker.produce("t", batch(5))
    (tmp_path / "t-0").rename(tmp_path / "lost-0")
    async with asking_node(tmp_path) as asker:
        assert (await asker.produce("t", batch())).base_offset == 0
        answer = await asker.produce("lost", batch())
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (stray,) = tmp_path.glob("lost-0.*-stray")
    assert (stray / "00000000000000000000.log").stat().st_size == len(batch(5))


async def test_a_topic_with_a_part_in_a_failed_directory_can_be_deleted(tmp_path: Path) -> None:
    directories = {"log.dirs": f"{tmp_path}/one,{tmp_path}/two"}
    async with running_node(tmp_path, directories) as node, asking(port_of(node)) as asker:
        await asker.create("t", 4)
        store = broker_of(node).store
        store.fail_directory(store.directories[1], OSError("the disk is gone"))
        await delete(asker, "t")
        assert not broker_of(node).hosted
        await asker.create("u", 2)
        for index in range(2):
            answer = await asker.produce("u", batch(), index=index)
            assert answer.error_code == ErrorCode.NONE

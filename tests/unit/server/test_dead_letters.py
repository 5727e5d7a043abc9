"""Dead letters on whole nodes: read at the source, written where their topic is led."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.app.node import Node
from penstock.coordination.delivery.effects import DeadLetter, Reason
from penstock.metadata.configs import BROKER, GROUP, TOPIC
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.records.builder import BatchBuilder
from penstock.records.record import Record, iterate
from penstock.replica.partition import Partition
from penstock.server import dead_letters
from tests.unit.server.asking import NOON, Asker, asking, batch, port_of, running_node
from tests.unit.server.several import several_nodes

SOURCE, LETTERS = "orders", "dlq.orders"
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
NAME = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
CREATE = "errors.deadletterqueue.auto.create.topics.enable"
KINDS = {TOPIC: 2, BROKER: 4, GROUP: 32}
"""Resources as Kafka numbers them."""


async def configure(asker: Asker, kind: int, name: str, **configs: str) -> None:
    """Set keys, with underscores for dots."""
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    answer = await asker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer.responses[0]


class Scene:
    """A node with a source of ten records, and a group that names a topic for dead letters."""

    def __init__(self, node: Node, asker: Asker) -> None:
        self.node = node
        self.asker = asker

    @property
    def source(self) -> Partition:
        return self.node.broker.hosted[SOURCE, 0]

    async def bury(self, first: int, last: int, source: Partition | None = None) -> bool:
        letter = DeadLetter(first, last, 5, Reason.REJECTED)
        letters = self.node.broker.coordinators.dead_letters
        return await letters.bury("workers", source or self.source, letter)

    def letters(self, index: int = 0) -> list[Record]:
        return records_of(self.node.broker.hosted[LETTERS, index])

    async def group(self, **configs: str) -> None:
        await configure(self.asker, KINDS[GROUP], "workers", **configs)


def records_of(partition: Partition) -> list[Record]:
    return [record for _, data in partition.log.batches(0) for record in iterate(bytes(data))]


def offsets(records: list[Record]) -> list[int]:
    return [int(dict(record.headers)["__dlq.errors.offset"] or b"") for record in records]


@asynccontextmanager
async def scene_in(path: Path) -> AsyncIterator[Scene]:
    async with running_node(path) as node, asking(port_of(node)) as asker:
        await asker.create(SOURCE)
        await asker.produce(SOURCE, batch(10))
        scene = Scene(node, asker)
        await scene.group(**{NAME: LETTERS})
        yield scene


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene_in(tmp_path) as made:
        yield made


async def test_letters_point_at_records_unless_they_are_to_be_copied(scene: Scene) -> None:
    await scene.asker.create(LETTERS, 1, ENABLED)
    assert await scene.bury(3, 4)
    assert [(it.key, it.value) for it in scene.letters()] == [(None, None)] * 2
    await scene.group(**{COPY: "true"})
    assert await scene.bury(5, 5)
    letters = scene.letters()
    assert offsets(letters) == [3, 4, 5]
    assert bytes(letters[2].value or b"") == b"value-5"
    headers = dict(letters[2].headers)
    assert headers["__dlq.errors.group"] == b"workers"
    assert headers["penstock-dlq-reason"] == b"rejected"


async def test_letters_about_many_records_are_read_and_sent_in_rounds(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "READ_BYTES", 200)
    monkeypatch.setattr(dead_letters, "BATCH_BYTES_MAX", 2_000)
    await scene.asker.create(LETTERS, 1, ENABLED)
    await scene.group(**{COPY: "true"})
    for first in range(10, 40):
        await scene.asker.produce(SOURCE, batch(1, first))
    assert await scene.bury(0, 39)
    letters = scene.letters()
    assert offsets(letters) == list(range(40))
    assert [bytes(it.value or b"") for it in letters] == [b"value-%d" % at for at in range(40)]


async def test_a_topic_is_created_if_brokers_may(scene: Scene) -> None:
    await configure(scene.asker, KINDS[BROKER], "", **{CREATE: "true"})
    assert await scene.bury(0, 0)
    assert offsets(scene.letters()) == [0]
    configs = scene.node.broker.image.configs.of(TOPIC, LETTERS)
    assert configs["errors.deadletterqueue.group.enable"] == "true"


async def test_a_topic_that_somebody_else_made_meanwhile_has_to_take_letters(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await configure(scene.asker, KINDS[BROKER], "", **{CREATE: "true"})
    letters = scene.node.broker.coordinators.dead_letters
    create = letters._create

    async def late(*args: Any) -> bool:
        await scene.asker.create(LETTERS)
        return await create(*args)

    monkeypatch.setattr(letters, "_create", late)
    assert not await scene.bury(0, 0)
    assert scene.letters() == []


async def test_a_topic_that_does_not_answer_holds_up_no_letters_for_others(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.asker.create(LETTERS, 1, ENABLED)
    await configure(scene.asker, KINDS[GROUP], "others", **{NAME: "dlq.hangs"})
    await scene.asker.create("dlq.hangs", 1, ENABLED)
    letters = scene.node.broker.coordinators.dead_letters
    send = letters._post.send

    async def hang(topic: str, index: int, data: bytes) -> ErrorCode:
        if topic == "dlq.hangs":
            await asyncio.Event().wait()
        return await send(topic, index, data)

    monkeypatch.setattr(letters._post, "send", hang)
    letter = DeadLetter(0, 0, 5, Reason.REJECTED)
    waiting = [
        asyncio.create_task(letters.bury("others", scene.source, letter))
        for _ in range(2 * dead_letters.AT_ONCE_MAX)
    ]
    await asyncio.sleep(0.05)
    async with asyncio.timeout(5):
        assert await scene.bury(0, 0)
    for each in waiting:
        each.cancel()
    await asyncio.wait(waiting)
    assert letters._turns == {}


async def test_letters_wait_for_a_topic_and_the_log_says_what_to_do_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "penstock.server"):
        await scene.asker.create("bills")
        for name in (SOURCE, "bills") * 3:
            assert not await scene.bury(0, 1, scene.node.broker.hosted[name, 0])
        said = [it.getMessage() for it in caplog.records if "dead letters" in it.getMessage()]
        assert len(said) == 1
        assert "create it with errors.deadletterqueue.group.enable=true" in said[0]
        await scene.asker.create(LETTERS)
        assert not await scene.bury(0, 1)
        assert "takes no dead letters" in caplog.text
        await configure(scene.asker, KINDS[TOPIC], LETTERS, **ENABLED)
        assert await scene.bury(0, 1)
    assert offsets(scene.letters()) == [0, 1]


async def test_records_that_are_deleted_have_letters_that_say_where_they_were(
    scene: Scene,
) -> None:
    await scene.asker.create(LETTERS, 1, ENABLED)
    await scene.group(**{COPY: "true"})
    scene.source.delete_to(10)
    await scene.asker.produce(SOURCE, batch(2, 10))
    assert await scene.bury(8, 11)
    letters = scene.letters()
    assert offsets(letters) == [8, 9, 10, 11]
    assert [it.value is None for it in letters] == [True, True, False, False]


async def test_letters_that_are_too_large_come_without_the_record(scene: Scene) -> None:
    await scene.asker.create(LETTERS, 1, {**ENABLED, "max.message.bytes": "700"})
    await scene.group(**{COPY: "true"})
    builder = BatchBuilder()
    builder.append(b"key", bytes(500), NOON)
    await scene.asker.produce(SOURCE, builder.build())
    assert await scene.bury(9, 10)
    small, large = scene.letters()
    assert small.value is not None
    assert large.value is None


async def test_a_topic_that_refuses_letters_gets_them_later(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.asker.create(LETTERS, 1, {**ENABLED, "cleanup.policy": "compact"})
    with caplog.at_level(logging.WARNING, "penstock.server"):
        assert not await scene.bury(0, 0)
    assert "INVALID_RECORD" in caplog.text, "letters without a copy have no key to compact by"
    await scene.group(**{COPY: "true"})
    assert await scene.bury(0, 0)


async def test_dead_letters_have_no_dead_letters(scene: Scene) -> None:
    await scene.asker.create(LETTERS, 1, ENABLED)
    await scene.asker.produce(LETTERS, batch(1))
    assert await scene.bury(0, 0, scene.node.broker.hosted[LETTERS, 0])
    assert len(scene.letters()) == 1, "archived, and not written once more"


async def test_a_fault_of_our_own_leaves_the_letters_to_be_written(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.asker.create(LETTERS, 1, ENABLED)
    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR, "penstock.server"):
        broken.setattr(dead_letters, "pack", lambda *_, **__: 1 // 0)
        assert not await scene.bury(0, 0)
    assert "ZeroDivisionError" in caplog.text
    assert await scene.bury(0, 0)


async def test_a_group_without_a_topic_archives(scene: Scene) -> None:
    await scene.group(**{NAME: ""})
    assert await scene.bury(0, 9)


async def test_letters_go_to_whoever_leads_their_topic(tmp_path: Path) -> None:
    async with several_nodes(tmp_path) as nodes:
        await nodes.create(SOURCE, partitions=3)
        underscored = {key.replace(".", "_"): value for key, value in ENABLED.items()}
        await nodes.create(LETTERS, partitions=2, replicas=3, **underscored)
        await configure(nodes.askers[1], KINDS[GROUP], "workers", **{NAME: LETTERS, COPY: "true"})
        await nodes.until(
            lambda: all(
                it.broker.image.configs.of(GROUP, "workers") for it in nodes.nodes.values()
            ),
            "known to be configured",
        )
        for index in range(3):
            leader = nodes.leader(SOURCE, index)
            await nodes.askers[leader].produce(SOURCE, batch(5, 10 * index), index)
            broker = nodes.nodes[leader].broker
            letter = DeadLetter(1, 3, 5, Reason.DELIVERIES)
            buried = broker.coordinators.dead_letters.bury(
                "workers", broker.hosted[SOURCE, index], letter
            )
            assert await buried
        found: dict[int, list[Any]] = {}
        for index in range(2):
            leader = nodes.leader(LETTERS, index)
            partition = nodes.nodes[leader].broker.hosted[LETTERS, index]
            assert partition.high_watermark == partition.log.end
            found[index] = [bytes(it.value or b"") for it in records_of(partition)]
        assert found[1] == [b"value-%d" % at for at in (11, 12, 13)]
        assert found[0] == [b"value-%d" % at for at in (1, 2, 3, 21, 22, 23)]


async def test_a_name_that_no_topic_can_have_is_refused(scene: Scene) -> None:
    for name in ("a b", "x" * 250, "..", "__consumer_offsets"):
        with pytest.raises(AssertionError, match=f"error_code={int(ErrorCode.INVALID_CONFIG)}"):
            await scene.group(**{NAME: name})

"""ShareFetch through a whole node: who gets which records, when, and for how long."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.registry import API
from penstock.records.batch import HEAD_SIZE, batch_end, read_head
from penstock.server.share_reading import ShareReading
from tests.unit.server.asking import NOON, asking, batch, port_of, running_node
from tests.unit.server.share_scene import LOCK_MS, SETTINGS, Scene, fresh_scene
from tests.unit.server.share_talk import (
    RELEASE,
    RENEW,
    SHARE_FETCH,
    VERSION,
    Said,
    Talker,
    acquired,
    begin_group,
    broker_of,
    configure,
    error_of,
    parts,
    verdict,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    async with running_node(tmp_path_factory.mktemp("node"), SETTINGS) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def scene(node: Node, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    async with fresh_scene(node, request.node.name) as made:
        yield made


# -- who gets what ----------------------------------------------------------------------------


async def test_a_record_is_one_members_at_a_time(scene: Scene) -> None:
    await scene.produce(3)
    async with scene.member() as anna, scene.member("bert") as bert:
        assert acquired(await anna.fetch(0, max_wait_ms=5000)) == [(0, 2, 1)]
        assert acquired(await bert.fetch(0)) == []
        assert verdict(await anna.acknowledge(Said(0, 1), Said(2, 2, (RELEASE,)))) == 0
        assert acquired(await bert.fetch(max_wait_ms=5000)) == [(2, 2, 2)]


async def test_the_answer_holds_the_batches_of_what_was_acquired_and_no_others(
    scene: Scene,
) -> None:
    await scene.produce(3, 2, 4)
    async with scene.member() as anna, scene.member("bert") as bert:
        first = await anna.fetch(0, max_wait_ms=5000, max_records=3)
        assert acquired(first) == [(0, 2, 1)]
        assert heads(parts(first)[0].records) == [(0, 2)]
        rest = await bert.fetch(0)
        assert acquired(rest) == [(3, 8, 1)]
        assert heads(parts(rest)[0].records) == [(3, 4), (5, 8)]


def heads(records: object) -> list[tuple[int, int]]:
    data = bytes(records)  # type: ignore[call-overload]
    found, at = [], 0
    while at + HEAD_SIZE <= len(data):
        head = read_head(data, at)
        found.append((head.base_offset, head.last_offset))
        at = batch_end(data, at)
    assert at == len(data)
    return found


async def test_batches_come_whole_unless_a_strict_limit_is_asked_for(scene: Scene) -> None:
    await scene.produce(10, 10)
    async with scene.member() as anna, scene.member("bert") as bert:
        strict = await anna.fetch(0, max_wait_ms=5000, max_records=4, share_acquire_mode=1)
        assert acquired(strict) == [(0, 3, 1)]
        whole = await bert.fetch(0, max_records=7)
        assert sum(last - first + 1 for first, last, _ in acquired(whole)) in (6, 16)


async def test_the_record_limit_counts_over_all_partitions(scene: Scene) -> None:
    for index in range(3):
        await scene.produce(5, index=index)
    async with scene.member() as anna:
        await anna.fetch(0, 1, 2, max_records=1, max_wait_ms=200, share_acquire_mode=1)
        got = parts(await anna.fetch(max_records=8, share_acquire_mode=1))
        counts = [
            sum(each.last_offset - each.first_offset + 1 for each in part.acquired_records)
            for part in got.values()
        ]
        assert sum(counts) == 8


async def test_no_partition_starves_behind_another(scene: Scene) -> None:
    for index in range(3):
        await scene.produce(5, 5, 5, index=index)
    async with scene.member() as anna:
        given = [*parts(await anna.fetch(0, 1, 2, max_wait_ms=5000, max_records=1))]
        for _ in range(2):
            given += parts(await anna.fetch(max_records=1))
        assert sorted(given) == [0, 1, 2]


async def test_partitions_are_forgotten(scene: Scene) -> None:
    await scene.produce(1)
    await scene.produce(1, index=1)
    async with scene.member() as anna:
        request = await anna.fetch(0, 1, max_wait_ms=5000, max_records=1)
        given = next(iter(parts(request)))
        assert parts(await anna.fetch(forgotten=[1 - given])) == {}


# -- waiting ----------------------------------------------------------------------------------


async def test_a_fetch_waits_for_records_and_no_longer(scene: Scene) -> None:
    async with scene.member() as anna:
        anna.send(0, max_wait_ms=20_000)
        await scene.parked(1)
        await scene.produce(2)
        assert acquired(await anna.answer()) == [(0, 1, 1)]
        await scene.parked(0)


async def test_a_fetch_that_finds_nothing_is_answered_when_its_time_is_over(scene: Scene) -> None:
    async with scene.member() as anna:
        begun = asyncio.get_running_loop().time()
        assert parts(await anna.fetch(0, max_wait_ms=150)) == {}
        assert asyncio.get_running_loop().time() - begun >= 0.14


@pytest.mark.parametrize("wait_ms", [200, 20_000], ids=["its time is over", "records come"])
async def test_a_fetch_that_fails_ends_its_connection_and_does_not_keep_it_waiting(
    scene: Scene, wait_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene.member() as anna:
        anna.send(0, max_wait_ms=wait_ms)
        await scene.parked(1)

        def fail(_: ShareReading) -> None:
            raise RuntimeError("a fault of our own")

        monkeypatch.setattr(ShareReading, "look", fail)
        if wait_ms > 1000:
            await scene.produce(1)
        async with asyncio.timeout(5):
            with pytest.raises(asyncio.IncompleteReadError):
                await anna.answer()
        await scene.parked(0)


async def test_a_fetch_waits_for_as_many_bytes_as_it_asks_for(scene: Scene) -> None:
    async with scene.member() as anna:
        data = batch(3)
        anna.send(0, max_wait_ms=20_000, min_bytes=2 * len(data))
        await scene.produce(3)
        await asyncio.sleep(0.05)
        await scene.parked(1)
        await scene.produce(3)
        assert acquired(await anna.answer()) == [(0, 5, 1)]


async def test_one_that_waits_gets_what_another_gives_back(scene: Scene) -> None:
    await scene.produce(2)
    async with scene.member() as anna, scene.member("bert") as bert:
        assert acquired(await anna.fetch(0, max_wait_ms=5000)) == [(0, 1, 1)]
        bert.send(0, max_wait_ms=20_000)
        await scene.parked(1)
        await anna.acknowledge(Said(0, 0, (RELEASE,)))
        assert acquired(await bert.answer()) == [(0, 0, 2)]


async def test_one_that_waits_gets_what_another_kept_for_too_long(scene: Scene) -> None:
    await scene.produce(1)
    async with scene.member() as anna, scene.member("bert") as bert:
        response = await anna.fetch(0, max_wait_ms=5000)
        assert response.acquisition_lock_timeout_ms == LOCK_MS
        assert acquired(response) == [(0, 0, 1)]
        assert acquired(await bert.fetch(0, max_wait_ms=20_000)) == [(0, 0, 2)]
        assert verdict(await anna.acknowledge(Said(0, 0))) is ErrorCode.INVALID_RECORD_STATE


async def test_a_lock_that_is_renewed_holds_for_longer(scene: Scene) -> None:
    await scene.produce(1)
    async with scene.member() as anna, scene.member("bert") as bert:
        await anna.fetch(0, max_wait_ms=5000)
        for _ in range(3):
            await asyncio.sleep(LOCK_MS / 2000)
            renewed = await anna.acknowledge(Said(0, 0, (RENEW,)), is_renew_ack=True)
            assert verdict(renewed) == 0
            assert renewed.acquisition_lock_timeout_ms == LOCK_MS
        assert acquired(await bert.fetch(0)) == []
        assert verdict(await anna.acknowledge(Said(0, 0))) == 0


@pytest.mark.parametrize("clean", [True, False])
async def test_what_a_member_held_is_for_others_when_it_is_gone(scene: Scene, clean: bool) -> None:
    await scene.produce(3)
    async with scene.member("bert") as bert:
        async with scene.member() as anna:
            assert acquired(await anna.fetch(0, max_wait_ms=5000)) == [(0, 2, 1)]
            bert.send(0, max_wait_ms=20_000)
            await scene.parked(1)
            if clean:
                assert (await anna.close()).error_code == 0
        assert acquired(await bert.answer()) == [(0, 2, 2)]


async def test_a_fetch_that_waits_hears_that_its_topic_is_deleted(scene: Scene) -> None:
    async with scene.member() as anna:
        anna.send(0, max_wait_ms=20_000)
        await scene.parked(1)
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=scene.topic)], timeout_ms=5000)
        await scene.asker.ask(gone, 6)
        assert error_of(await anna.answer()) in (
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )


async def test_a_fetch_that_waits_hears_who_leads_when_the_lead_is_lost(scene: Scene) -> None:
    broker = broker_of(scene.node)
    async with scene.member() as anna:
        anna.send(0, max_wait_ms=20_000)
        await scene.parked(1)
        broker.shares.lose(broker.hosted[scene.topic, 0])
        answer = await anna.answer()
        assert error_of(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader = parts(answer)[0].current_leader
        assert (leader.leader_id, leader.leader_epoch) == (broker.node_id, 0)
        assert [each.node_id for each in answer.node_endpoints] == [broker.node_id]


async def test_a_client_that_goes_away_leaves_nothing_behind(scene: Scene) -> None:
    async with scene.member() as anna:
        anna.send(0, 1, 2, max_wait_ms=60_000)
        await scene.parked(1)
        sock = anna.asker._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        anna.asker._writer.transport.abort()
        await scene.parked(0)
    hosted = broker_of(scene.node).hosted.values()
    assert all(not each.audience.readers for each in hosted)


# -- where a group begins, and how its configuration counts -------------------------------------


@pytest.mark.parametrize(
    ("reset", "first"),
    [("latest", 6), ("earliest", 0), ("by_duration:PT1H", 3), ("by_duration:PT1S", 6)],
)
async def test_a_group_begins_where_its_configuration_says(
    scene: Scene, reset: str, first: int
) -> None:
    now = broker_of(scene.node).clock.now()
    await scene.produce(3, first=(now - 7_200_000 - NOON) // 1000)
    await scene.produce(3, first=(now - 600_000 - NOON) // 1000)
    scene.group = f"{scene.topic}.fresh"
    await begin_group(scene.node, scene.group, scene.topic_id, start=-1)
    await configure(scene.asker, scene.group, {"share.auto.offset.reset": reset})
    async with scene.member() as anna:
        anna.send(0, max_wait_ms=20_000)
        if first == 6:
            await scene.parked(1)
            await begun(scene)
            await scene.produce(1)
        assert acquired(await anna.answer())[0] == (first, 6 if first == 6 else 5, 1)


async def begun(scene: Scene) -> None:
    async with asyncio.timeout(5):
        while True:
            key = (scene.topic_id, 0)
            driver = broker_of(scene.node).shares.partitions.find(scene.group, key)
            if driver is not None and driver.delivery is not None:
                return
            await asyncio.sleep(0.005)


async def test_a_changed_configuration_counts_from_the_next_delivery_on(scene: Scene) -> None:
    await scene.produce(1, 1)
    async with scene.member() as anna:
        await anna.fetch(0, max_wait_ms=5000, max_records=1)
        longer = {"share.record.lock.duration.ms": "7000"}
        await configure(scene.asker, scene.group, longer)
        answer = await anna.fetch(max_records=1)
        assert answer.acquisition_lock_timeout_ms == 7000


async def test_a_record_that_was_released_waits_as_long_as_the_group_wants(scene: Scene) -> None:
    await configure(scene.asker, scene.group, {"penstock.share.retry.backoff.ms": "300"})
    await scene.produce(2)
    async with scene.member() as anna:
        await anna.fetch(0, max_wait_ms=5000)
        begun = asyncio.get_running_loop().time()
        await anna.acknowledge(Said(0, 0, (RELEASE,)), Said(1, 1))
        assert acquired(await anna.fetch()) == []
        assert acquired(await anna.fetch(max_wait_ms=20_000)) == [(0, 0, 2)]
        assert asyncio.get_running_loop().time() - begun >= 0.29


async def test_a_record_that_is_released_too_often_is_given_up(scene: Scene) -> None:
    await configure(scene.asker, scene.group, {"share.delivery.count.limit": "2"})
    await scene.produce(1)
    async with scene.member() as anna:
        for count in (1, 2):
            assert acquired(await anna.fetch(0, max_wait_ms=5000)) == [(0, 0, count)]
            await anna.acknowledge(Said(0, 0, (RELEASE,)))
        assert acquired(await anna.fetch(max_wait_ms=100)) == []


# -- the log below --------------------------------------------------------------------------------


async def test_what_is_deleted_from_the_log_is_done_with(scene: Scene) -> None:
    await scene.produce(3, 3, 3)
    async with scene.member() as anna:
        assert acquired(await anna.fetch(0, max_wait_ms=5000, max_records=3)) == [(0, 2, 1)]
        below = DeleteRecordsPartition(partition_index=0, offset=6)
        topics = [DeleteRecordsTopic(name=scene.topic, partitions=[below])]
        await scene.asker.ask(DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2)
        assert acquired(await anna.fetch()) == [(6, 8, 1)]


async def test_a_batch_larger_than_every_limit_comes_whole(scene: Scene) -> None:
    await scene.produce(100)
    async with scene.member() as anna:
        answer = await anna.fetch(0, max_wait_ms=5000, max_bytes=10, max_records=1)
        assert acquired(answer) == [(0, 99, 1)]


async def test_progress_outlives_the_node(tmp_path: Path) -> None:
    async with running_node(tmp_path, SETTINGS) as node, asking(port_of(node)) as asker:
        topic_id = await asker.create("t")
        await begin_group(node, "g", topic_id)
        await asker.produce("t", batch(4))
        anna = Talker(asker, topic_id)
        await anna.fetch(0, max_wait_ms=5000)
        assert verdict(await anna.acknowledge(Said(0, 1), Said(2, 2, (RELEASE,)))) == 0
    async with running_node(tmp_path, SETTINGS) as node, asking(port_of(node)) as asker:
        anna = Talker(asker, topic_id)
        # What was held when the node went was never told to anybody: it counts as not delivered.
        assert acquired(await anna.fetch(0, max_wait_ms=5000)) == [(2, 2, 2), (3, 3, 1)]


async def test_a_group_whose_members_are_all_gone_is_forgotten_and_found_again(
    scene: Scene,
) -> None:
    await scene.produce(3)
    partitions = broker_of(scene.node).shares.partitions
    async with scene.member() as anna:
        await anna.fetch(0, max_wait_ms=5000)
        await anna.acknowledge(Said(0, 0))
        assert partitions.find(scene.group, (scene.topic_id, 0)) is not None
    async with asyncio.timeout(5):
        while partitions.find(scene.group, (scene.topic_id, 0)) is not None:
            await asyncio.sleep(0.005)
    async with scene.member("bert") as bert:
        assert acquired(await bert.fetch(0, max_wait_ms=5000)) == [(1, 2, 2)]


async def test_the_version_that_tests_speak_is_the_newest() -> None:
    assert max(API[SHARE_FETCH].versions) == VERSION

"""ShareFetch through a whole node: who gets which records, when, and for how long."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from tests.unit.server.asking import NOON, Asker, asking, batch, port_of, running_node
from tests.unit.server.share_talk import (
    ACCEPT,
    REJECT,
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

LOCK_MS = 1000
SETTINGS = {
    "group.share.min.record.lock.duration.ms": str(LOCK_MS),
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.max.share.sessions": "4",
}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    async with running_node(tmp_path_factory.mktemp("node"), SETTINGS) as made:
        yield made


class Scene:
    """A topic of its own for each test, and a group that has just begun with it."""

    def __init__(self, node: Node, asker: Asker, topic: str, topic_id: bytes) -> None:
        self.node = node
        self.asker = asker
        self.topic = topic
        self.topic_id = topic_id
        self.group = topic

    async def produce(self, *counts: int, index: int = 0, first: int = 0) -> None:
        """Batches of so many records each."""
        for count in counts:
            answer = await self.asker.produce(self.topic, batch(count, first), index)
            assert answer.error_code == ErrorCode.NONE

    @asynccontextmanager
    async def member(self, name: str = "anna") -> AsyncIterator[Talker]:
        async with asking(port_of(self.node)) as asker:
            yield Talker(asker, self.topic_id, self.group, name)

    async def parked(self, count: int) -> None:
        async with asyncio.timeout(5):
            while broker_of(self.node).parked_fetches != count:
                await asyncio.sleep(0.005)


@pytest_asyncio.fixture(loop_scope="module")
async def scene(node: Node, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    async with asking(port_of(node)) as asker:
        topic = re.sub("[^a-z0-9_.]", ".", request.node.name)[:200]
        topic_id = await asker.create(topic, 3)
        await begin_group(node, topic, topic_id, 3)
        yield Scene(node, asker, topic, topic_id)
    async with asyncio.timeout(5):
        while len(broker_of(node).shares.sessions):
            await asyncio.sleep(0.005)


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


# -- what members say -------------------------------------------------------------------------


async def test_what_was_accepted_never_comes_again(scene: Scene) -> None:
    await scene.produce(2, 2)
    async with scene.member() as anna:
        assert acquired(await anna.fetch(0, max_wait_ms=5000, max_records=2)) == [(0, 1, 1)]
        answer = await anna.fetch(said={0: [Said(0, 0), Said(1, 1, (REJECT,))]})
        assert parts(answer)[0].acknowledge_error_code == 0
        assert acquired(answer) == [(2, 3, 1)]
        await anna.close()
    async with scene.member() as anna:
        assert acquired(await anna.fetch(0, max_wait_ms=5000)) == [(2, 3, 2)]


async def test_one_word_for_each_record(scene: Scene) -> None:
    await scene.produce(4)
    async with scene.member() as anna:
        await anna.fetch(0, max_wait_ms=5000)
        words = (ACCEPT, RELEASE, REJECT, RELEASE)
        assert verdict(await anna.acknowledge(Said(0, 3, words))) == 0
        assert acquired(await anna.fetch()) == [(1, 1, 2), (3, 3, 2)]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ([Said(1, 2)], ErrorCode.INVALID_RECORD_STATE),  # again
        ([Said(3, 4)], ErrorCode.INVALID_REQUEST),  # nobody was given these
        ([Said(0, 0), Said(3, 3)], ErrorCode.INVALID_REQUEST),  # all or nothing
        ([Said(0, 2**62)], ErrorCode.INVALID_REQUEST),
        ([Said(2**62, 2**63 - 1)], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_a_member_does_not_hold_it_cannot_speak_of(
    scene: Scene, said: list[Said], error: ErrorCode
) -> None:
    await scene.produce(3, 3)
    async with scene.member() as anna:
        await anna.fetch(0, max_wait_ms=5000, max_records=3)
        assert verdict(await anna.acknowledge(Said(1, 2))) == 0
        begun = asyncio.get_running_loop().time()
        assert verdict(await anna.acknowledge(*said)) is error
        assert asyncio.get_running_loop().time() - begun < 2
        assert verdict(await anna.acknowledge(Said(0, 0))) == 0
        assert acquired(await anna.fetch()) == [(3, 5, 1)]


@pytest.mark.parametrize(
    "said",
    [
        [Said(2, 1)],
        [Said(0, 2, ())],
        [Said(0, 2, (ACCEPT, ACCEPT))],
        [Said(0, 2**62, (ACCEPT, ACCEPT))],
        [Said(0, 2, (5,))],
        [Said(0, 2, (-1,))],
        [Said(0, 2, (RENEW,))],  # without the flag that says so
        [Said(1, 2), Said(0, 0)],
    ],
)
async def test_what_makes_no_sense_is_refused_whole(scene: Scene, said: list[Said]) -> None:
    await scene.produce(3)
    async with scene.member() as anna:
        await anna.fetch(0, max_wait_ms=5000)
        assert verdict(await anna.acknowledge(*said)) is ErrorCode.INVALID_REQUEST
        assert verdict(await anna.acknowledge(Said(0, 2))) == 0


async def test_a_request_that_renews_locks_fetches_nothing(scene: Scene) -> None:
    await scene.produce(1, 1)
    async with scene.member() as anna:
        await anna.fetch(0, max_wait_ms=5000, max_records=1)
        nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
        renew = {0: [Said(0, 0, (RENEW,))]}
        answer = await anna.fetch(said=renew, is_renew_ack=True, **nothing)
        assert verdict(answer) == 0
        assert acquired(answer) == []
        greedy = await anna.fetch(said=renew, is_renew_ack=True)
        assert greedy.error_code == ErrorCode.INVALID_REQUEST


async def test_speaking_of_a_topic_that_is_not_there_tells_so(scene: Scene) -> None:
    await scene.produce(1)
    async with scene.member() as anna:
        await anna.fetch(0)
        anna.topic_id = b"?" * 16
        assert verdict(await anna.acknowledge(Said(0, 0))) is ErrorCode.UNKNOWN_TOPIC_ID
        anna.topic_id = scene.topic_id
        unknown = await anna.acknowledge(Said(0, 0), index=77)
        assert verdict(unknown) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- sessions ---------------------------------------------------------------------------------


async def test_a_session_has_to_be_opened_and_its_epochs_counted(scene: Scene) -> None:
    async with scene.member() as anna:
        anna.epoch = 1
        assert (await anna.fetch(0)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        gone = await anna.acknowledge(Said(0, 0), epoch=-1)
        assert gone.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        anna.epoch = 0
        await anna.fetch(0)
        anna.epoch = 7
        assert (await anna.fetch()).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        stale = await anna.acknowledge(Said(0, 0), epoch=0)
        assert stale.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_nothing_is_acknowledged_while_a_session_opens(scene: Scene) -> None:
    async with scene.member() as anna:
        refused = await anna.fetch(said={0: [Said(0, 0)]})
        assert refused.error_code == ErrorCode.INVALID_REQUEST


async def test_sessions_have_a_bound_and_who_finds_it_waits_first(scene: Scene) -> None:
    async with scene.member() as anna:
        for name in "abcd":
            anna.name, anna.epoch = name, 0
            assert (await anna.fetch(0)).error_code == 0
        anna.name, anna.epoch = "e", 0
        begun = asyncio.get_running_loop().time()
        refused = await anna.fetch(0, max_wait_ms=100)
        assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert asyncio.get_running_loop().time() - begun >= 0.09


@pytest.mark.parametrize("name", ["", "x" * 37])
async def test_a_member_has_a_name_of_some_length(scene: Scene, name: str) -> None:
    async with scene.member(name) as nobody:
        assert (await nobody.fetch(0)).error_code == ErrorCode.INVALID_REQUEST


async def test_what_is_not_there_is_said_partition_by_partition(scene: Scene) -> None:
    await scene.produce(1)
    async with scene.member() as anna:
        got = parts(await anna.fetch(0, 9, max_wait_ms=5000))
        assert got[9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    async with scene.member() as anna:
        anna.topic_id = b"?" * 16
        assert error_of(await anna.fetch(0)) is ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_group_that_nobody_began_gets_nothing(scene: Scene) -> None:
    async with scene.member() as anna:
        anna.group = "nobody ever began"
        answer = await anna.fetch(0, max_wait_ms=20_000)
        assert error_of(answer) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert broker_of(scene.node).shares.partitions.find(anna.group, (scene.topic_id, 0)) is None


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


async def test_version_1_knows_no_renewal(scene: Scene) -> None:
    await scene.produce(1)
    async with scene.member() as anna:
        request = anna.request(0, max_wait_ms=5000)
        response = await anna.asker.ask(request, 1)
        assert acquired(response) == [(0, 0, 1)]
        anna.epoch = 1
        request = anna.request(said={0: [Said(0, 0, (RENEW,))]})
        refused = await anna.asker.ask(request, 1)
        assert verdict(refused) is ErrorCode.INVALID_REQUEST


async def test_the_version_that_tests_speak_is_the_newest() -> None:
    assert max(API[SHARE_FETCH].versions) == VERSION

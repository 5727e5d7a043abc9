"""A whole node: what it finds at its start, what it loses on its way, what it leaves behind."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from penstock.app.node import CannotStart, Node
from penstock.app.registration import RegistrationRefused
from penstock.app.settings import settings_for_up
from penstock.model.config.node import NodeConfig
from penstock.model.errors import ErrorCode
from penstock.platform.directory_lock import DirectoryInUse
from penstock.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from penstock.records.batch import patch_base, read_head
from tests.unit.server.asking import NOON, Asker, asking, batch, port_of, running_node

QUICK = {"broker.heartbeat.interval.ms": "50"}


def two_directories(tmp_path: Path) -> dict[str, str]:
    return {**QUICK, "log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}"}


def new_node(path: Path, **overrides: str) -> Node:
    settings = settings_for_up(str(path), "127.0.0.1", 0, overrides)
    return Node(NodeConfig.of(settings), lambda: None)


async def test_what_was_written_is_there_after_a_clean_stop(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        topic_id = await asker.create("t", partitions=2)
        await asker.produce("t", batch(3), index=1)
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        assert node.broker.image.topics.by_name["t"].id == topic_id
        assert (await asker.produce("t", batch(), index=1)).base_offset == 3


async def test_what_a_crash_left_unsynced_is_durable_before_anybody_is_let_in(
    tmp_path: Path,
) -> None:
    every = {"log.flush.interval.messages": "1"}
    options = {"producer_id": 5, "producer_epoch": 0}
    node = new_node(tmp_path, **every)
    await node.start()
    async with asking(port_of(node)) as asker:
        await asker.create("t")
        await asker.produce("t", batch(3, base_sequence=0, **options))
    log = node.broker.hosted["t", 0].log
    late = bytearray(batch(3, base_sequence=3, **options))
    head = read_head(late)
    patch_base(late, 0, 3, 0)
    log.append(memoryview(late), head, 3, 0, NOON)  # the node dies before this is synced
    await node.stop(clean=False)
    async with running_node(tmp_path, every) as node, asking(port_of(node)) as asker:
        partition = node.broker.hosted["t", 0]
        assert (partition.high_watermark, partition.log.recovery_point) == (6, 6)
        again = await asker.produce("t", batch(3, base_sequence=3, **options))
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 3)


async def test_the_controller_learns_where_each_replica_lies(tmp_path: Path) -> None:
    async with running_node(tmp_path, two_directories(tmp_path)) as node:
        async with asking(port_of(node)) as asker:
            await asker.create("t", partitions=4)
            await node.registration.beat()
        known = {each.uuid for each in node.broker.store.directories}
        states = node.broker.image.topics.by_name["t"].partitions.values()
        assert {state.directories[0] for state in states} == known


async def test_a_failing_directory_takes_only_its_own_partitions_offline(tmp_path: Path) -> None:
    settings = two_directories(tmp_path)
    async with running_node(tmp_path, settings) as node, asking(port_of(node)) as asker:
        await asker.create("t", partitions=4)
        await node.registration.beat()
        store = node.broker.store
        failing = store.directories[1]
        mine = [key for key, log in store.logs.items() if store.directory_of(log) is failing]
        store.fail_directory(failing, OSError(errno.EIO, "a broken disk"))
        await node.registration.beat()
        answers = {i: await asker.produce("t", batch(), index=i) for i in range(4)}
        broken = {i for i, answer in answers.items() if answer.error_code}
        assert broken == {key.partition for key in mine} != set()
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        topic = (await asker.ask(request, 12)).topics[0]
        offline = {p.partition_index for p in topic.partitions if p.leader_id < 0}
        assert offline == broken


async def test_what_lies_in_a_directory_that_is_away_at_the_start_is_there_when_it_is_back(
    tmp_path: Path,
) -> None:
    settings = two_directories(tmp_path)
    async with running_node(tmp_path, settings) as node, asking(port_of(node)) as asker:
        await asker.create("t", partitions=4)
        await node.registration.beat()
        for index in range(4):
            await asker.produce("t", batch(3), index=index)
        store = node.broker.store
        away = {key.partition for key, log in store.logs.items() if "/two/" in log.directory}
    (tmp_path / "two").rename(tmp_path / "away")
    (tmp_path / "two").write_bytes(b"no directory")
    for start in range(2):
        async with running_node(tmp_path, settings) as node, asking(port_of(node)) as asker:
            answers = [await asker.produce("t", batch(), index=index) for index in range(4)]
            await node.registration.beat()
            assert {index for index in range(4) if answers[index].error_code} == away != set()
            await asker.create(f"new-{start}")
            assert (await asker.produce(f"new-{start}", batch())).error_code == ErrorCode.NONE
    (tmp_path / "two").unlink()
    (tmp_path / "away").rename(tmp_path / "two")
    async with running_node(tmp_path, settings) as node, asking(port_of(node)) as asker:
        answers = [await asker.produce("t", batch(), index=index) for index in range(4)]
        assert [answer.base_offset for answer in answers] == [
            3 if index in away else 5 for index in range(4)
        ]


async def test_a_log_that_the_metadata_does_not_know_is_set_aside(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        await asker.create("t")
        await asker.produce("t", batch(3))
    (tmp_path / "t-0").rename(tmp_path / "other-0")
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        assert (await asker.produce("t", batch())).base_offset == 0
        strays = [each for each in tmp_path.iterdir() if each.name.endswith("-stray")]
        assert len(strays) == 1
        assert (strays[0] / "00000000000000000000.log").stat().st_size > 0


async def test_a_second_node_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    async with running_node(tmp_path):
        second = new_node(tmp_path)
        with pytest.raises(DirectoryInUse):
            await second.start()
        await second.stop(clean=False)


async def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        async with running_node(tmp_path / name):
            assert (tmp_path / name / "meta.properties").exists()
    node = new_node(tmp_path, **{"log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}"})
    with pytest.raises(CannotStart, match="different clusters"):
        await node.start()
    await node.stop(clean=False)


async def test_a_taken_port_is_said_so(tmp_path: Path) -> None:
    async with running_node(tmp_path / "one") as first:
        port = port_of(first)
        settings = settings_for_up(str(tmp_path / "two"), "127.0.0.1", port, {})
        second = Node(NodeConfig.of(settings), lambda: None)
        with pytest.raises(CannotStart, match=f"cannot listen on 127.0.0.1:{port}"):
            await second.start()
        await second.stop(clean=False)


async def test_a_heartbeat_under_way_when_the_node_stops_is_the_last(tmp_path: Path) -> None:
    async with running_node(tmp_path, QUICK) as node:
        registration = node.registration
        registration.stop()
        beating = registration._beating
        assert beating is not None
        async with asyncio.timeout(3):
            await beating


async def test_a_stop_answers_those_who_wait_for_more_to_read(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with running_node(tmp_path) as node:
        opened = await asyncio.open_connection("127.0.0.1", port_of(node))
        asker = Asker(*opened)
        topic_id = await asker.create("t")
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1024)
        topic = FetchTopic(topic_id=topic_id, partitions=[wanted])
        asker.send(FetchRequest(max_wait_ms=30_000, min_bytes=1, topics=[topic]), 13)
        while not node.broker.parked_fetches:
            await asyncio.sleep(0.01)
        began = loop.time()
    assert loop.time() - began < 3
    assert (await asker.receive(FetchRequest.API_KEY, 13)).error_code == ErrorCode.NONE
    asker.close()


async def test_compacted_topics_refuse_records_without_a_key(tmp_path: Path) -> None:
    from penstock.records.builder import BatchBuilder

    builder = BatchBuilder()
    builder.append(None, b"value", 1_700_000_000_000)
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        await asker.create("t", configs={"cleanup.policy": "compact"})
        answer = await asker.produce("t", bytes(builder.build()))
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [each.batch_index for each in answer.record_errors] == [0]


async def test_a_node_that_is_told_twice_to_stop_does_not_wait_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless() -> None:
        await asyncio.sleep(3600)

    node = new_node(tmp_path)
    await node.start()
    monkeypatch.setattr(node.registration, "leave", endless)
    stopping = asyncio.create_task(node.stop())
    await asyncio.sleep(0.05)
    assert not stopping.done()
    node.hurry()
    async with asyncio.timeout(10):
        await stopping
    assert (tmp_path / ".kafka_cleanshutdown").exists(), "its own disk is in order all the same"


def without_a_quorum(tmp_path: Path) -> dict[str, str]:
    """The node is now one of two voters, and the other one does not answer."""
    return {
        "controller.quorum.voters": "1@127.0.0.1:1,2@127.0.0.1:1",
        "initial.broker.registration.timeout.ms": "300",
    }


async def test_a_start_that_finds_no_quorum_does_not_make_the_last_stop_an_unclean_one(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path) as node:
        epoch = node.registration.epoch
    for _ in range(2):
        node = new_node(tmp_path, **without_a_quorum(tmp_path))
        with pytest.raises(RegistrationRefused, match="see that most controllers"):
            await node.start()
        await node.stop()
    async with running_node(tmp_path) as node:
        assert node.broker.store.clean_broker_epoch == epoch


async def test_after_a_crash_a_start_that_finds_no_quorum_does_not_pass_for_a_clean_stop(
    tmp_path: Path,
) -> None:
    node = new_node(tmp_path)
    await node.start()
    await node.stop(clean=False)
    node = new_node(tmp_path, **without_a_quorum(tmp_path))
    with pytest.raises(RegistrationRefused):
        await node.start()
    await node.stop()
    async with running_node(tmp_path) as node:
        assert node.broker.store.clean_broker_epoch in (None, -1)


async def test_a_node_whose_last_directory_failed_stops(tmp_path: Path) -> None:
    told: list[str] = []
    settings = settings_for_up(str(tmp_path), "127.0.0.1", 0, two_directories(tmp_path))
    node = Node(NodeConfig.of(settings), lambda: told.append("stop"))
    await node.start()
    store = node.broker.store
    store.fail_directory(store.directories[1], OSError(errno.EIO, "a broken disk"))
    assert not told, "the other one still works"
    store.fail_directory(store.directories[0], OSError(errno.EIO, "another one"))
    assert told == ["stop"]
    assert not node.sound
    assert "no log directory works any more" in str(node.failure)
    await node.stop(clean=node.sound)

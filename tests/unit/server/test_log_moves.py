"""AlterReplicaLogDirs: logs move between directories while they are written and read."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.generated.describe_log_dirs import DescribeLogDirsRequest
from penstock.records.batch import HEAD_SIZE, batch_end, read_head
from penstock.server.broker import Broker
from penstock.storage.log import Log
from penstock.storage.moves import LogMove
from tests.unit.server.asking import Asker, asking, batch, port_of, running_node
from tests.unit.server.test_fetch import VERSION, fetch


def settings(tmp_path: Path) -> dict[str, str]:
    return {"log.dirs": f"{tmp_path}/one,{tmp_path}/two", "log.segment.bytes": "1048576"}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, settings(tmp_path)) as made:
        yield made


@pytest.fixture
async def asker(node: Node) -> AsyncIterator[Asker]:
    async with asking(port_of(node)) as made:
        await made.create("t")
        yield made


def broker_of(node: Node) -> Broker:
    assert node._broker is not None
    return node._broker


def move(path: str, topic: str = "t", index: int = 0) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])]
            )
        ]
    )


async def moved(asker: Asker, path: str, **options: Any) -> ErrorCode:
    response = await asker.ask(move(path, **options), 2)
    return ErrorCode(response.results[0].partitions[0].error_code)


def places(node: Node) -> tuple[str, str]:
    """Where the log lies now, and the other directory."""
    store = broker_of(node).store
    here = store.directory_of(store.logs["t", 0]).path  # type: ignore[index]
    (other,) = (each.path for each in store.directories if each.path != here)
    return here, other


async def settled(node: Node) -> None:
    async with asyncio.timeout(20):
        while broker_of(node).log_moves.busy:
            await asyncio.sleep(0.005)


async def everything(asker: Asker) -> bytes:
    """All batches of the topic, read as a consumer reads them."""
    found, offset = bytearray(), 0
    while True:
        response = await asker.ask(fetch(offset), VERSION)
        part = response.responses[0].partitions[0]
        assert part.error_code == ErrorCode.NONE
        if not part.records:
            return bytes(found)
        at = 0
        while at + HEAD_SIZE <= len(part.records) and batch_end(part.records, at) <= len(
            part.records
        ):
            offset = read_head(part.records, at).end_offset
            at = batch_end(part.records, at)
        found += part.records[:at]


async def test_a_log_moves_with_all_that_it_holds(node: Node, asker: Asker) -> None:
    for _ in range(60):
        await asker.produce("t", batch(2000))
    before = await everything(asker)
    assert len(broker_of(node).hosted["t", 0].log.segments) > 2
    here, other = places(node)
    assert await moved(asker, other) == ErrorCode.NONE
    await settled(node)
    assert places(node) == (other, here)
    assert Path(f"{other}/t-0").is_dir() and not Path(f"{here}/t-0").exists()
    assert await everything(asker) == before
    assert (await asker.produce("t", batch(10))).base_offset == 120_000


async def test_writes_and_their_retries_go_on_while_the_log_moves(node: Node, asker: Asker) -> None:
    async def write() -> None:
        async with asking(port_of(node)) as writer:
            for number in range(300):
                options = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 10 * number}
                data = batch(10, **options)
                assert (await writer.produce("t", data)).base_offset == 10 * number
                again = await writer.produce("t", data)
                assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 10 * number)

    writing = asyncio.ensure_future(write())
    for _ in range(4):
        _, other = places(node)
        assert await moved(asker, other) == ErrorCode.NONE
        await settled(node)
        assert places(node)[0] == other
    await writing
    assert len(await everything(asker)) == 300 * len(batch(10))


async def test_a_moved_log_is_there_after_a_restart(tmp_path: Path) -> None:
    async with running_node(tmp_path, settings(tmp_path)) as node, asking(port_of(node)) as asker:
        await asker.create("t")
        for _ in range(50):
            await asker.produce("t", batch(10))
        _, other = places(node)
        await moved(asker, other)
        await settled(node)
    async with running_node(tmp_path, settings(tmp_path)) as node, asking(port_of(node)) as asker:
        assert places(node)[0] == other
        assert (await asker.produce("t", batch(10))).base_offset == 500
        state = broker_of(node).image.topics.by_name["t"].partitions[0]
        store = broker_of(node).store
        assert state.directories == (store.directory_of(store.logs["t", 0]).uuid,)  # type: ignore[index]


async def test_a_move_is_described_while_it_is_under_way(
    node: Node, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogMove, "step", lambda *_: False)  # it never catches up
    await asker.produce("t", batch(10))
    here, other = places(node)
    await moved(asker, other)
    async with asyncio.timeout(5):
        while True:
            response = await asker.ask(DescribeLogDirsRequest(topics=None), 5)
            found = {
                (each.log_dir, part.is_future_key): part.offset_lag
                for each in response.results
                for topic in each.topics
                for part in topic.partitions
            }
            if found == {(here, False): 0, (other, True): 10}:
                break
            await asyncio.sleep(0.01)
    assert await moved(asker, here) == ErrorCode.NONE  # back where it is: the move is called off
    assert not broker_of(node).store.moves
    assert places(node)[0] == here


async def test_a_move_that_a_stop_interrupts_goes_on_after_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(LogMove, "step", lambda *_: False)
        async with (
            running_node(tmp_path, settings(tmp_path)) as node,
            asking(port_of(node)) as asker,
        ):
            await asker.create("t")
            await asker.produce("t", batch(10))
            here, other = places(node)
            await moved(asker, other)
            await asyncio.sleep(0.05)
    async with running_node(tmp_path, settings(tmp_path)) as node, asking(port_of(node)) as asker:
        await settled(node)
        assert places(node) == (other, here)
        assert (await asker.produce("t", batch(10))).base_offset == 10


async def test_a_deleted_topic_takes_its_move_along(
    node: Node, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogMove, "step", lambda *_: False)
    _, other = places(node)
    await moved(asker, other)
    await asker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000), 6)
    await settled(node)
    assert not broker_of(node).store.logs


async def test_records_deleted_before_a_move_stay_deleted(node: Node, asker: Asker) -> None:
    for _ in range(20):
        await asker.produce("t", batch(10))
    broker_of(node).hosted["t", 0].log.advance_start(60)
    _, other = places(node)
    await moved(asker, other)
    await settled(node)
    log = broker_of(node).hosted["t", 0].log
    assert (places(node)[0], log.start, log.end) == (other, 60, 200)


async def test_a_log_that_cannot_be_synced_in_its_new_place_is_not_served_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = Log.sync

    def fail_in_place(log: Log, *, closing: bool = False) -> int:
        if log.directory == f"{other}/t-0":
            raise OSError(errno.EIO, "a broken disk")
        return sync(log, closing=closing)

    async with running_node(tmp_path, settings(tmp_path)) as node, asking(port_of(node)) as asker:
        await asker.create("t")
        await asker.produce("t", batch(10))
        _, other = places(node)
        with monkeypatch.context() as patched:
            patched.setattr(Log, "sync", fail_in_place)
            await moved(asker, other)
            await settled(node)
            answer = await asker.produce("t", batch(10))
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            store = broker_of(node).store
            assert [each.path for each in store.directories if not each.online] == [other]
    async with running_node(tmp_path, settings(tmp_path)) as node, asking(port_of(node)) as asker:
        assert (await asker.produce("t", batch(10))).base_offset == 10


async def test_what_cannot_be_moved_is_refused(node: Node, asker: Asker) -> None:
    here, other = places(node)
    assert await moved(asker, here) == ErrorCode.NONE
    assert await moved(asker, "/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
    assert await moved(asker, f"{other}/") == ErrorCode.LOG_DIR_NOT_FOUND
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await moved(asker, other, topic="nowhere") == unknown
    assert await moved(asker, other, index=7) == unknown
    assert await moved(asker, other, topic="x" * 230) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not broker_of(node).store.moves

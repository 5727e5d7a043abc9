"""A node that dies after any of its appends: each transaction is all there or not at all.

One run of transactions is watched; after each append, to whatever partition, the data directory is
copied as a kill would leave it, or as a power cut would: without what was not synced. A node is
then started on each copy. What was decided before must be carried out, what was not must not count,
and everything must be able to go on.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.app.node import Node
from penstock.coordination.group.offsets.committed import unpack
from penstock.coordination.txn.states import TxnState
from penstock.model.errors import ErrorCode
from penstock.model.ids import TopicPartition
from penstock.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.record_frames import TRANSACTION
from penstock.records.batch import CONTROL, HEAD_SIZE, read_head
from penstock.records.record import iterate
from penstock.replica.partition import Partition
from penstock.storage.store import LogStore
from tests.unit.server.asking import NOON, asking, port_of, running_node
from tests.unit.server.test_txn_offsets import GROUP, GROUPS_TOPIC, error_of, find_group, offsets
from tests.unit.server.txn_talk import STATE_TOPIC, Talk

CONFIG = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
PLAN = [(True, 3), (False, 8), (True, 5), (False, None)]
"""Transactions: whether each commits, and the offset that it commits for the group."""

NODES_AT_ONCE = 8
"""They mostly wait for the disk."""

Place = tuple[int, int]
"""A partition and an offset there."""

BeforeCopy = Callable[[LogStore, Partition], None]
"""What the node had the time to do after the append."""


class Image(NamedTuple):
    """A killed node's directory, and what must become of it."""

    path: Path
    readable: set[Place]
    group_offset: int | None


class Witness:
    """Copies the directory after each append, and after each sync."""

    def __init__(
        self, directory: Path, store: LogStore, before_copy: BeforeCopy, power_fails: bool
    ) -> None:
        self.images: list[Image] = []
        self._directory = directory
        self._store = store
        self._before_copy = before_copy
        self._power_fails = power_fails
        self._written: dict[Place, int] = {}
        self._decided: list[tuple[int, int]] = []
        """Where each decision to commit stands, and which transaction it is about."""
        self.number = -1

    def saw(self, partition: Partition, batch: bytes) -> None:
        head = read_head(batch)
        if partition.topic == STATE_TOPIC:
            self._note_decision(partition, batch)
        elif not partition.internal and not head.attributes & CONTROL:
            self._written[partition.index, partition.log.end - 1] = self.number
        self.copy(partition)

    def _note_decision(self, partition: Partition, batch: bytes) -> None:
        for record in iterate(memoryview(batch), 0):
            assert record.value is not None
            value: Any = TRANSACTION.read_value(0, record.value)[0]
            if value.transaction_status == TxnState.PREPARE_COMMIT:
                self._decided.append((partition.log.end - 1, self.number))

    def copy(self, partition: Partition) -> None:
        self._before_copy(self._store, partition)
        path = self._directory.with_name(f"image-{len(self.images)}")
        shutil.copytree(self._directory, path, copy_function=_copy_if_there)
        decided = self._decided
        if self._power_fails:
            for log in self._store.logs.values():
                lose_unsynced(path / Path(log.directory).name, log.recovery_point)
            durable = self._store.logs[TopicPartition(STATE_TOPIC, 0)].recovery_point
            decided = [each for each in decided if each[0] < durable]
        numbers = {number for _, number in decided}
        readable = {place for place, number in self._written.items() if number in numbers}
        offsets = [PLAN[number][1] for _, number in decided]
        self.images.append(Image(path, readable, offsets[-1] if offsets else None))


def _copy_if_there(source: str, target: str) -> str:
    """Copy a file, unless a worker thread gave it its final name since the directory was listed."""
    try:
        return str(shutil.copy2(source, target))
    except FileNotFoundError:
        assert source.endswith(".tmp"), source
        return target


def lose_unsynced(directory: Path, durable: int) -> None:
    """Leave what a power cut leaves of a log that is durable up to this offset."""
    last = None
    for path in sorted(directory.glob("*.log")):
        if int(path.stem) >= durable > 0:
            for each in directory.glob(f"{path.stem}.*"):
                each.unlink()
            continue
        last = path
        data, at = path.read_bytes(), 0
        while at + HEAD_SIZE <= len(data) and read_head(data, at).base_offset < durable:
            at += read_head(data, at).length + 12
        path.write_bytes(data[:at])
    for suffix in ("index", "timeindex", "txnindex"):  # they are synced after they are sealed
        if last is not None:
            last.with_suffix(f".{suffix}").unlink(missing_ok=True)


async def transact(talk: Talk, version: int, commit: bool, offset: int | None) -> None:
    """One transaction over two partitions and a group."""
    if version == 1:
        assert not any(await talk.add(0, 1))
    sent = await talk.send(0, 1, version=13 if version == 2 else 11)
    assert sent == [ErrorCode.NONE] * 2
    if offset is not None:
        if version == 1:
            assert not await talk.add_offsets(GROUP)
        answer = await talk.asker.ask(offsets(talk, offset), 5 if version == 2 else 4)
        assert error_of(answer) is ErrorCode.NONE
    assert not await talk.end(commit, version=5 if version == 2 else 4)
    await talk.settle()


async def watch(
    directory: Path,
    version: int,
    before_copy: BeforeCopy,
    monkeypatch: pytest.MonkeyPatch,
    power_fails: bool = False,
) -> list[Image]:
    """The plan, carried out on a node that is then stopped."""
    write, synced = Partition._write, Partition._on_synced

    def watched_write(self: Partition, records: memoryview, *more: Any) -> Any:
        result = write(self, records, *more)
        witness.saw(self, bytes(records))
        return result

    def watched_sync(self: Partition, *sync: Any) -> None:
        synced(self, *sync)
        witness.copy(self)

    flush = {"flush.messages": "1"} if power_fails else {}
    async with running_node(directory, CONFIG) as node, asking(port_of(node)) as asker:
        assert node._store is not None
        witness = Witness(directory, node._store, before_copy, power_fails)
        for topic in (STATE_TOPIC, GROUPS_TOPIC):
            await asker.create(topic, 1, flush)
        talk = await Talk(asker, "orders").open(**flush)  # type: ignore[arg-type]
        await find_group(asker)
        await talk.init()
        with monkeypatch.context() as patched:
            patched.setattr(Partition, "_write", watched_write)
            patched.setattr(Partition, "_on_synced", watched_sync)
            for number, (commit, offset) in enumerate(PLAN):
                witness.number = number
                await transact(talk, version, commit, offset)
    return witness.images


async def readable(talk: Talk, index: int) -> set[Place]:
    """The offsets that a reader of committed records keeps, as clients work it out."""
    kept: set[Place] = set()
    offset, stable = 0, 1
    while offset < stable:
        found = await _fetch(talk, index, offset)
        assert not found.error_code
        assert found.last_stable_offset == found.high_watermark
        stable = found.last_stable_offset
        aborted = [(each.first_offset, each.producer_id) for each in found.aborted_transactions]
        skipped: set[int] = set()
        view, at = memoryview(found.records), 0
        while at + HEAD_SIZE <= len(view):
            head = read_head(view, at)
            at += head.length + 12
            begun = [each for each in aborted if each[0] <= head.last_offset]
            aborted = [each for each in aborted if each not in begun]
            skipped |= {producer_id for _, producer_id in begun}
            if head.attributes & CONTROL:
                skipped.discard(head.producer_id)
            elif head.producer_id not in skipped:
                kept.add((index, head.base_offset))
            offset = head.last_offset + 1
    return kept


async def _fetch(talk: Talk, index: int, offset: int) -> Any:
    partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        isolation_level=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic_id=talk.topic_id, partitions=[partition])],
    )
    return (await talk.asker.ask(request, 16)).responses[0].partitions[0]


def group_offset(node: Node) -> int | None:
    ((_, shard),) = node.broker.coordinators.groups.shards()
    assert not shard.offsets.any_open
    topics = shard.offsets.topics(GROUP)
    packed = topics.get("topic-of-orders", {}).get(0)
    return None if packed is None else unpack(packed).offset


async def check(image: Image, version: int) -> None:
    """Start a node on the image, and see that all is well and goes on."""
    async with running_node(image.path, CONFIG) as node, asking(port_of(node)) as asker:
        talk = await _resumed(asker, node)
        await talk.settle()
        while (error := await talk.init()) is ErrorCode.CONCURRENT_TRANSACTIONS:
            await talk.settle()  # what was left open is aborted first
        assert not error
        assert await readable(talk, 0) | await readable(talk, 1) == image.readable
        assert group_offset(node) == image.group_offset
        await transact(talk, version, True, 21)
        assert len(await readable(talk, 0) | await readable(talk, 1)) == len(image.readable) + 2
        assert group_offset(node) == 21


async def _resumed(asker: Any, node: Node) -> Talk:
    talk = Talk(asker, "orders")
    talk.topic_id = node.broker.image.topics.by_name[talk.topic].id
    await find_group(asker)
    await _loaded(talk)
    return talk


async def _loaded(talk: Talk) -> None:
    for _ in range(500):
        if await talk._answers():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the coordinator does not load")


def _nothing(store: LogStore, partition: Partition) -> None:
    """The node had no time to write more than the batch."""


def _checkpoint(store: LogStore, partition: Partition) -> None:
    """All checkpoints were written just before the kill."""
    store.checkpoint_pass()


def _roll(store: LogStore, partition: Partition) -> None:
    """Each batch is in a segment of its own, durable, with a snapshot behind it."""
    partition.log.roll(NOON)
    partition.log.sync()
    store.checkpoint_pass()


@pytest.mark.parametrize(
    ("version", "before_copy"), [(1, _nothing), (1, _roll), (2, _checkpoint), (2, _roll)]
)
async def test_a_kill_after_any_append_leaves_transactions_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, before_copy: BeforeCopy
) -> None:
    images = await watch(tmp_path / "node", version, before_copy, monkeypatch)
    assert len(images) > 25
    await check_all(images, version)


@pytest.mark.parametrize("version", [1, 2])
async def test_a_power_cut_leaves_transactions_whole_where_every_batch_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    images = await watch(tmp_path / "node", version, _checkpoint, monkeypatch, power_fails=True)
    assert len(images) > 40
    await check_all(images, version)


async def check_all(images: list[Image], version: int) -> None:
    for some in zip_longest(*[iter(images)] * NODES_AT_ONCE):
        await asyncio.gather(*(check(image, version) for image in some if image is not None))

"""Transactions of Penstock and of Apache Kafka: told the same, both say and write the same.

Each talk is held with both, and the notes are compared.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.oracle.nodes import ApacheNode
from tests.unit.server.asking import asking, asking_node
from tests.unit.server.txn_talk import Talk

pytestmark = pytest.mark.java

CONFIG = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.max.timeout.ms": "100000",
}
Holding = Callable[[Talk], Awaitable[None]]
Agree = Callable[[Holding], Awaitable[None]]


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    with ApacheNode(tmp_path_factory.mktemp("apache"), config=CONFIG) as node:
        yield node  # type: ignore[misc]


@pytest.fixture
async def agree(
    apache: ApacheNode, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Agree]:
    name = request.node.name.removeprefix("test_")

    async with AsyncExitStack() as stack:
        theirs = await stack.enter_async_context(asking(apache.port))
        ours = await stack.enter_async_context(asking_node(tmp_path, CONFIG))

        async def compare(hold: Holding) -> None:
            notes = []
            for asker in (theirs, ours):
                talk = await Talk(asker, name).open()
                await hold(talk)
                await talk.written()
                notes.append(talk.notes)
            assert notes[1] == notes[0]

        yield compare


async def test_version_2(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        await talk.init()
        for commit in (True, False, True):
            await talk.send(0, 1)
            await talk.send(0)
            await talk.describe()
            await talk.read(0)
            await talk.producers(0)
            await talk.end(commit)
            await talk.settle()
            await talk.describe()
            for index in range(3):
                await talk.read(index)
                await talk.read(index, committed=False)
            await talk.producers(0)

    await agree(hold)


async def test_version_1(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        await talk.init(4)
        for commit in (True, False):
            await talk.add(0, 1)
            await talk.send(0, 1, version=11)
            await talk.send(0, version=9)
            await talk.describe()
            await talk.end(commit, version=4)
            await talk.settle()
            await talk.end(commit, version=4)
            await talk.end(not commit, version=4)
            await talk.read(0)
            await talk.read(1, committed=False)
            await talk.producers(1)

    await agree(hold)


async def test_introductions_in_all_versions(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        for version in range(6):
            await talk.init(version)
            await talk.init(version, transaction_timeout_ms=0)
            await talk.init(version, transaction_timeout_ms=100_001)
            await talk.init(version, transactional_id="")
        for version in range(3, 6):
            await talk.init(version, resume=True)
            await talk.init(version, producer_id=talk.producer_id, producer_epoch=talk.epoch - 1)
            await talk.init(version, producer_id=talk.producer_id, producer_epoch=0)
            await talk.init(version, producer_id=4711, producer_epoch=talk.epoch)
            await talk.init(version, producer_id=talk.producer_id)
            await talk.init(version, producer_epoch=3)

    await agree(hold)


async def test_an_introduction_ends_what_was_open(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        await talk.init()
        await talk.send(0)
        before = talk.epoch
        await talk.init()
        await talk.settle()
        await talk.describe()
        await talk.init()
        await talk.read(0)
        await talk.send(0, epoch=before)
        await talk.end(True, producer_epoch=before)
        await talk.end(True, version=4, producer_epoch=before)
        await talk.end(True, version=1, producer_epoch=before)
        await talk.add(0, epoch=before)
        await talk.add(0, epoch=before, version=1)

    await agree(hold)


async def test_strangers_are_refused_in_all_versions(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        await talk.init()
        for version in range(6):
            await talk.add(0, 1, version=version, producer_id=99)
            await talk.add(0, 1, version=version, epoch=99)
            await talk.add(0, 1, version=version, name="nobody-at-all")
            await talk.add(0, 1, version=version, name="")
            await talk.add(0, 7, version=version)
            await talk.add(0, version=version, topic="no-such-topic")
            await talk.add(99, version=version, topic="__transaction_state")
            await talk.end(version=version, producer_id=99)
            await talk.end(version=version, producer_epoch=99)
            await talk.end(version=version, transactional_id="nobody-at-all")
            await talk.end(version=version, transactional_id="")
        for version in range(5):
            await talk.add_offsets("group", version, producer_id=99)
            await talk.add_offsets("group", version, producer_epoch=99)
            await talk.add_offsets("group", version, transactional_id="nobody-at-all")
        for version in (4, 5):
            await talk.add(0, version=version, producer_id=99, verify_only=True)
            await talk.add(0, version=version, epoch=99, verify_only=True)
            await talk.add(0, version=version, verify_only=True)
            await talk.add(0, version=version, name="nobody-at-all", verify_only=True)

    await agree(hold)


async def test_partitions_that_were_not_added(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        await talk.init()
        await talk.send(0, version=9)
        await talk.send(0, version=11)
        await talk.add(0)
        await talk.add(0)
        await talk.send(0, 1, version=10)
        await talk.send(0, 1, version=11)
        await talk.add(0, 1, version=4, verify_only=True)
        await talk.end(True, version=4)
        await talk.settle()
        await talk.send(0, version=11)
        await talk.read(1)

    await agree(hold)


async def test_batches_of_others(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        await talk.init()
        for version in (9, 11, 12, 13):
            await talk.send(0, version=version, epoch=7)
            await talk.send(0, version=version, producer_id=4711)
            await talk.send(0, version=version, name="nobody-at-all")
            await talk.send(0, version=version, name=None)
        await talk.send(0, sequence=3)
        await talk.send(0)
        await talk.send(0, sequence=0)
        await talk.send(0, transactional=False)
        await talk.send(0, name=None)
        await talk.end()
        await talk.settle()
        await talk.read(0)

    await agree(hold)


async def test_retries_of_the_end(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        await talk.init()
        await talk.end(True)
        await talk.send(0)
        epoch = talk.epoch
        await talk.end(True)
        await talk.settle()
        await talk.end(True, producer_epoch=epoch)
        await talk.end(False, producer_epoch=epoch)
        await talk.end(True, producer_epoch=epoch + 1)
        await talk.send(0)
        await talk.end(True, producer_epoch=epoch)
        await talk.end(False, producer_epoch=epoch)
        await talk.end(False)
        await talk.settle()
        await talk.end(False, producer_epoch=epoch + 1)
        await talk.end(True, producer_epoch=epoch + 1)

    await agree(hold)


async def test_aborts_of_nothing(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        await talk.init()
        await talk.end(False, version=4)
        for _ in range(3):
            await talk.end(False)
            await talk.settle()
        await talk.send(1)
        await talk.end(True)
        await talk.settle()
        await talk.end(False)
        await talk.settle()
        await talk.describe()

    await agree(hold)


async def test_clients_that_change_their_version(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        await talk.init()
        await talk.send(0)
        await talk.end(True, version=4)
        await talk.settle()
        await talk.add(0)
        await talk.send(0, version=11)
        await talk.end(True, version=5)
        await talk.settle()
        await talk.init(resume=True)
        await talk.send(0)
        await talk.end(True, version=5)
        await talk.settle()

    await agree(hold)


async def test_offsets_of_groups(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        for version in range(5):
            await talk.init()
            await talk.add_offsets("group", version)
            await talk.describe()
            await talk.end(version % 2 == 0, version=3)
            await talk.settle()

    await agree(hold)


async def test_timeouts(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        await talk.init(timeout_ms=300)
        await talk.send(0)
        for _ in range(200):
            if (await talk._described()).transaction_state == "CompleteAbort":
                break
        await talk.settle()
        await _until_ended(talk)
        await talk.describe()
        await talk.read(0)
        await talk.send(0)
        await talk.end(True)
        await talk.end(False)

    await agree(hold)


async def _until_ended(talk: Talk) -> None:
    import asyncio

    for _ in range(300):
        if (await talk._described()).transaction_state == "CompleteAbort":
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the transaction never timed out")


async def test_listing(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        await talk.init()
        await talk.send(0)
        for version in range(3):
            await talk.list(version)
            await talk.list(version, state_filters=["Ongoing", "Nonsense"])
            await talk.list(version, state_filters=["Empty"])
            await talk.list(version, state_filters=["Nonsense"])
            await talk.list(version, producer_id_filters=[talk.producer_id])
            await talk.list(version, producer_id_filters=[4711])
        for version in (1, 2):
            await talk.list(version, duration_filter=100_000)
            await talk.list(version, duration_filter=0)
        await talk.list(transactional_id_pattern="list.*")
        await talk.list(transactional_id_pattern="list")
        await talk.list(transactional_id_pattern="")
        await talk.list(transactional_id_pattern="(")
        await talk.describe("nobody-at-all")
        await talk.describe("")
        await talk.end()
        await talk.settle()
        await talk.list(state_filters=["CompleteCommit"])

    await agree(hold)


async def test_markers_by_an_administrator(agree: Agree) -> None:
    async def hold(talk: Talk) -> None:
        await talk.init()
        await talk.send(0)
        await talk.send(1)
        for version in (1, 2):
            await talk.mark(False, 7, version=version)
            await talk.mark(False, 0, version=version, topic="no-such-topic")
            await talk.mark(False, 0, version=version, producer_epoch=-1)
        await talk.mark(False, 0, 1, version=2, transaction_version=2)
        await talk.read(0)
        await talk.mark(False, 0, version=1)
        await talk.read(0)
        await talk.producers(0)
        await talk.mark(True, 0, version=2, transaction_version=2)
        await talk.mark(True, 0, version=1, coordinator_epoch=5)
        await talk.mark(True, 0, version=1, coordinator_epoch=4)
        await talk.mark(True, 2, version=1)
        await talk.read(0)
        await talk.send(0)

    await agree(hold)

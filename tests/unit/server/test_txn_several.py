"""Transactions over several nodes: coordinators here, leaders there, and bad lines between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from penstock.model.errors import ErrorCode
from penstock.model.ids import uuid_text
from penstock.protocol.generated.describe_groups import DescribeGroupsRequest
from penstock.protocol.generated.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from penstock.protocol.generated.describe_transactions import DescribeTransactionsRequest
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
from penstock.protocol.generated.list_transactions import ListTransactionsRequest
from penstock.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.records.batch import CONTROL, read_head
from penstock.records.control import read_marker
from penstock.replica.partition import Partition
from penstock.server.internal_topics import SHARES_TOPIC, TRANSACTIONS_TOPIC
from tests.unit.server.asking import Asker
from tests.unit.server.several import BadLine, Several, several_nodes
from tests.unit.server.test_txn_offsets import GROUP, error_of, offsets
from tests.unit.server.txn_talk import Talk

ONE_COPY = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    # Lines are bad here for longer than anywhere else.
    "add.partitions.to.txn.retry.backoff.max.ms": "2000",
}
THREE_COPIES = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "controlled.shutdown.enable": "true",
}
RETRIED = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Several]:
    directory = tmp_path_factory.mktemp("several")
    async with several_nodes(directory, config=ONE_COPY) as several:
        yield several


def asked_offsets(talk: Talk) -> OffsetFetchRequest:
    topic = OffsetFetchRequestTopics(name=talk.topic, partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
    return OffsetFetchRequest(groups=[group], require_stable=True)


async def find(several: Several, key: str, key_type: int) -> Any:
    """The coordinator, when there is one."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    async with asyncio.timeout(20):
        while True:
            found = (await several.askers[2].ask(request, 4)).coordinators[0]
            if not found.error_code:
                return found
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await asyncio.sleep(0.05)


async def introduce(several: Several, name: str, replicas: int = 1) -> Talk:
    """A producer that has its id, and a topic with a partition on each node."""
    talk = Talk(several, name)  # type: ignore[arg-type]
    await find(several, name, 1)
    talk.topic_id = await several.create(talk.topic, len(several.nodes), replicas)
    leaders = {several.leader(talk.topic, index) for index in range(len(several.nodes))}
    assert leaders == set(several.nodes)
    async with asyncio.timeout(20):
        while await talk.init():
            await asyncio.sleep(0.05)
    return talk


async def send(talk: Talk, index: int, version: int = 13) -> ErrorCode:
    """One record, as often as it takes."""
    for _ in range(200):
        (error,) = await talk.send(index, version=version)
        if error not in RETRIED:
            return error
        await asyncio.sleep(0.02)
    return error


async def kinds(several: Several, talk: Talk, index: int) -> list[str]:
    """What a partition holds, when nothing is open there any more."""
    node = several.nodes[several.leader(talk.topic, index)]
    partition = node.broker.hosted[talk.topic, index]
    await several.until(
        lambda: partition.last_stable == partition.log.end, f"all of {partition} stable"
    )
    found, offset = [], partition.log.start
    while offset < partition.log.end:
        piece = partition.log.read(offset, 1 << 20, partition.log.end)
        assert piece is not None
        data, at = piece.read_waiting(), 0
        while at < len(data):
            head = read_head(data, at)
            found.append(_kind(data[at : at + head.length + 12]))
            offset, at = head.base_offset + head.last_offset_delta + 1, at + head.length + 12
    return found


def _kind(batch: bytes) -> str:
    head = read_head(batch)
    marker = read_marker(batch, 0, head) if head.attributes & CONTROL else None
    return "data" if marker is None else "commit" if marker.is_commit else "abort"


async def test_a_transaction_ends_on_every_node_that_it_has_reached(nodes: Several) -> None:
    talk = await introduce(nodes, "orders")
    for commit in (True, False):
        for index in range(3):
            assert await send(talk, index) is ErrorCode.NONE
        assert not await talk.end(commit)
        await talk.settle()
    for index in range(3):
        assert await kinds(nodes, talk, index) == ["data", "commit", "data", "abort"]


async def test_every_replica_knows_how_each_transaction_ended(nodes: Several) -> None:
    talk = await introduce(nodes, "copied", replicas=3)
    for commit in (True, False, True):
        for index in range(3):
            assert await send(talk, index) is ErrorCode.NONE
        assert not await talk.end(commit)
        await talk.settle()
    for index in range(3):
        held = [node.broker.hosted[talk.topic, index] for node in nodes.nodes.values()]
        await nodes.until(
            lambda held=held: {each.last_stable for each in held} == {6},
            f"all of {talk.topic}-{index} stable on every node",
        )
        known = [memory(each) for each in held]
        assert known[0] == known[1] == known[2]
        assert [entry[1] for entry in known[0].values()] == [talk.epoch], "the last marker's"
        assert known[0][talk.producer_id][2] >= 0, "and under which coordinator it was written"


def memory(partition: Partition) -> dict[int, tuple[int, ...]]:
    """What a replica remembers of producers: sequences, epochs, and whether one is open."""
    return {
        producer_id: (it.last_sequence, it.epoch, it.coordinator_epoch, it.txn_first_offset)
        for producer_id, it in partition.log.producers.by_id.items()
    }


async def test_offsets_count_when_the_transaction_ends_wherever_the_group_is_coordinated(
    nodes: Several,
) -> None:
    await find(nodes, GROUP, 0)
    home = nodes.coordinator("__consumer_offsets", GROUP)
    await find(nodes, "any", 1)
    name = next(
        name
        for name in (f"elsewhere-{number}" for number in range(50))
        if nodes.coordinator("__transaction_state", name) != home
    )
    talk = await introduce(nodes, name)
    for commit, offset in ((True, 5), (False, 9)):
        assert error_of(await nodes.ask(offsets(talk, offset), 5)) is ErrorCode.NONE
        assert not await talk.end(commit)
        await talk.settle()
    fetched = (await nodes.ask(asked_offsets(talk), 8)).groups[0].topics[0].partitions[0]
    assert (fetched.error_code, fetched.committed_offset) == (ErrorCode.NONE, 5)


async def test_who_is_asked_in_another_ones_place_says_so(nodes: Several) -> None:
    talk = await introduce(nodes, "alone")
    await find(nodes, GROUP, 0)
    home = nodes.coordinator("__transaction_state", talk.name)
    groups_home = nodes.coordinator("__consumer_offsets", GROUP)
    assert (await find(nodes, talk.name, 1)).node_id == home
    for node_id, asker in nodes.askers.items():
        described = await asker.ask(DescribeTransactionsRequest(transactional_ids=["alone"]), 0)
        error = ErrorCode(described.transaction_states[0].error_code)
        assert error is (ErrorCode.NONE if node_id == home else ErrorCode.NOT_COORDINATOR)
        assert await errors_at(asker, talk) == [error] * 3
        listed = await asker.ask(ListTransactionsRequest(), 2)
        names = [each.transactional_id for each in listed.transaction_states]
        assert (listed.error_code, "alone" in names) == (0, node_id == home)
        group = (await asker.ask(DescribeGroupsRequest(groups=[GROUP]), 5)).groups[0]
        expected = ErrorCode.NONE if node_id == groups_home else ErrorCode.NOT_COORDINATOR
        assert group.error_code == expected
        for index in range(3):
            request = DescribeProducersRequest(
                topics=[TopicRequest(name=talk.topic, partition_indexes=[index])]
            )
            told = (await asker.ask(request, 0)).topics[0].partitions[0].error_code
            leads = nodes.leader(talk.topic, index) == node_id
            assert told == (0 if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def errors_at(asker: Asker, talk: Talk) -> list[ErrorCode]:
    """What one node says to all that a producer asks of its coordinator."""
    there = Talk(asker, talk.name)
    there.topic, there.producer_id, there.epoch = talk.topic, talk.producer_id, talk.epoch
    added = [*await there.add(0), await there.add_offsets(GROUP)]
    return [*added, await there.end(False, version=4)]


async def test_a_coordinator_whose_topic_needs_more_brokers_is_not_available(
    nodes: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = nodes.nodes[1].broker
    asked: list[Any] = []
    handle = broker.controller.handle

    async def many_replicas(api_key: int, request: Any, **more: Any) -> Any:
        request.topics[0].replication_factor = 5
        asked.append(await handle(api_key, request, **more))
        return asked[-1]

    monkeypatch.setattr(broker.controller, "handle", many_replicas)
    key = f"group:{uuid_text(bytes(16))}:0"
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    found = (await nodes.askers[1].ask(request, 6)).coordinators[0]
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await asyncio.gather(*(broker.coordinators.topics.make(SHARES_TOPIC) for _ in range(9)))
    refused = [each.topics[0].error_code for each in asked]
    assert refused == [ErrorCode.INVALID_REPLICATION_FACTOR] * 2, "nine ask once"


async def test_bad_lines_neither_lose_nor_split_a_transaction(nodes: Several) -> None:
    chance = random.Random(7)
    lines = [BadLine(node, random.Random(chance.random())) for node in nodes.nodes.values()]
    for version in (1, 2):
        for line in lines:
            line.is_good = True
        talk = await introduce(nodes, f"orders-{version}")
        for line in lines:
            line.is_good = False
        expected = await transact(talk, version, chance)
        for index in range(3):
            assert without_repeats(await kinds(nodes, talk, index)) == expected[index]
    assert sum(line.faults for line in lines) > 10
    for line in lines:
        line.is_good = True


async def transact(talk: Talk, version: int, chance: random.Random) -> dict[int, list[str]]:
    """Some transactions; what each partition must hold then."""
    expected: dict[int, list[str]] = {index: [] for index in range(3)}
    for _ in range(12):
        commit = chance.random() < 0.6
        for index in chance.sample(range(3), chance.randrange(1, 4)):
            if version == 1:
                while (await talk.add(index))[0] is ErrorCode.CONCURRENT_TRANSACTIONS:
                    await asyncio.sleep(0.02)
            error = await send(talk, index, 13 if version == 2 else 11)
            assert error is ErrorCode.NONE, talk.notes[-5:]
            expected[index] += ["data", "commit" if commit else "abort"]
        assert not await talk.end(commit, version=5 if version == 2 else 4)
    return expected


async def test_another_coordinator_carries_out_what_the_first_decided_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("moving")
    async with several_nodes(directory, config=THREE_COPIES) as several:
        talk = await introduce(several, "decided", replicas=3)
        open_one = await introduce(several, "open", replicas=3)
        home = several.coordinator(TRANSACTIONS_TOPIC, talk.name)
        assert several.coordinator(TRANSACTIONS_TOPIC, open_one.name) == home
        for index in range(3):
            assert await send(talk, index) is ErrorCode.NONE
            assert await send(open_one, index) is ErrorCode.NONE
        marker_writer: Any = several.nodes[home].broker.coordinators._markers
        marker_writer._remote = lambda *_: asyncio.get_running_loop().create_future()
        assert not await talk.end()
        assert (await talk.describe()).transaction_state == "PrepareCommit"
        await several.stop(home)
        await several.until(
            lambda: several.coordinator(TRANSACTIONS_TOPIC, talk.name) not in (home, -1),
            "another coordinator",
        )
        await several.until(
            lambda: all(several.leader(talk.topic, index) not in (home, -1) for index in range(3)),
            "other leaders",
        )
        await loaded(talk)
        await talk.settle()
        assert await send(open_one, 0) is ErrorCode.NONE
        assert not await open_one.end(False)
        for index in range(3):
            assert without_repeats(await kinds(several, talk, index)) == ["data", "commit"]
            found = without_repeats(await kinds(several, open_one, index))
            assert found == ["data"] * (2 if index == 0 else 1) + ["abort"]


async def loaded(talk: Talk) -> None:
    """Wait until the coordinator has read what the one before has written."""
    waiting = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    async with asyncio.timeout(20):
        while (await talk.describe()).error_code in waiting:
            await asyncio.sleep(0.02)


def without_repeats(found: list[str]) -> list[str]:
    """A marker may stand there twice in a row: the answer to the first was lost."""
    kept: list[str] = []
    for kind in found:
        if kind == "data" or not kept or kept[-1] != kind:
            kept.append(kind)
    return kept

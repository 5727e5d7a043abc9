"""With the same few rights, Penstock and Apache Kafka refuse the same, in the same words.

Both get the same topics, groups and transactions while everything is allowed. Then entries are
written that leave the client few rights, and every question that it can ask of records, topics,
groups and transactions goes to both, in all versions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.model.operations import Operation
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.registry import API
from tests.oracle.nodes import ApacheNode
from tests.unit.server import rights_questions as q
from tests.unit.server import share_group_questions as shares
from tests.unit.server.asking import Asker, asking, asking_node, batch
from tests.unit.server.rights_scene import (
    ABOUT_ALL,
    FEW,
    GROUPS,
    OPEN_UNTIL_SAID,
    TRANSACTIONS,
    Make,
    creation,
    group,
    transaction,
)
from tests.unit.server.test_group_admin import _coordinated
from tests.unit.server.test_same_answers import _led, differences

pytestmark = pytest.mark.java

BATCHED: dict[str, Any] = {
    "producer_id": 4711,
    "producer_epoch": 0,
    "base_sequence": 0,
    "transactional": True,
}
SHARE = "g:AAAAAAAAAAAAAAAAAAAAAA:0"

RULES = [
    *ABOUT_ALL,
    *FEW,
    *group("c-mine", Operation.DESCRIBE),
    *group("c-both", Operation.DESCRIBE),
    *transaction("t-both", Operation.DESCRIBE),
]


def _same(request: Message) -> Make:
    """A request that is the same in all versions, on all nodes."""
    return lambda _version, _ids: request


QUESTIONS: list[tuple[ApiKey, Make, range | None]] = [
    (ApiKey.PRODUCE, q.producing(), range(3, 14)),
    (ApiKey.PRODUCE, q.producing("t-theirs"), range(3, 14)),
    (ApiKey.PRODUCE, q.producing("t-theirs", **BATCHED), range(3, 14)),
    (ApiKey.FETCH, q.fetching(), None),
    (ApiKey.FETCH, q.fetching(isolation_level=1), None),
    (ApiKey.FETCH, q.fetching(replica_id=1), None),
    (ApiKey.FETCH, q.fetching(replica_id=-2), None),
    (ApiKey.LIST_OFFSETS, q.listing_offsets, None),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, q.asking_epochs, None),
    (ApiKey.DESCRIBE_PRODUCERS, q.describing_producers, None),
    (ApiKey.METADATA, q.asking_metadata(), range(4, 14)),
    (ApiKey.METADATA, q.asking_metadata(None), None),
    (ApiKey.METADATA, q.asking_metadata(creating=True), None),
    (ApiKey.METADATA, q.asking_metadata_by_id, range(12, 14)),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, q.describing_topics(), None),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, q.describing_topics(()), None),
    (ApiKey.DELETE_RECORDS, q.deleting_records, None),
    *[(ApiKey.FIND_COORDINATOR, q.finding(0, *GROUPS[i:]), None) for i in range(3)],
    *[(ApiKey.FIND_COORDINATOR, q.finding(1, *TRANSACTIONS[i:]), range(1, 7)) for i in range(3)],
    (ApiKey.FIND_COORDINATOR, q.finding(2, SHARE), range(4, 7)),
    *[(ApiKey.OFFSET_COMMIT, q.committing(each), None) for each in GROUPS],
    *[(ApiKey.OFFSET_FETCH, q.fetching_offsets(each), range(1, 8)) for each in GROUPS],
    (ApiKey.OFFSET_FETCH, q.fetching_offsets(*GROUPS), range(8, 11)),
    (ApiKey.OFFSET_FETCH, q.fetching_offsets(*GROUPS, names=None), range(2, 11)),
    *[(ApiKey.OFFSET_DELETE, q.deleting_offsets(each), None) for each in GROUPS],
    (ApiKey.LIST_GROUPS, q.listing_groups, None),
    (ApiKey.DESCRIBE_GROUPS, q.describing_groups(*GROUPS), None),
    (ApiKey.DELETE_GROUPS, q.deleting_groups(*GROUPS), None),
    *[
        (key, make(each), None)
        for each in GROUPS[1:]
        for key, make in (
            (ApiKey.JOIN_GROUP, q.joining),
            (ApiKey.SYNC_GROUP, q.syncing),
            (ApiKey.HEARTBEAT, q.beating),
            (ApiKey.LEAVE_GROUP, q.leaving),
        )
    ],
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, q.subscribing("g-theirs", ["mine"]), None),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, q.subscribing("g-seen", ["mine"]), None),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, q.subscribing("g-mine", ["mine", "theirs"]), None),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, q.subscribing("g-mine", ["absent"]), None),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, q.describing_consumers("c-mine", "c-both", "c-no"), None),
    (ApiKey.SHARE_GROUP_HEARTBEAT, _same(shares.beating("g-theirs", ["mine"])), None),
    (ApiKey.SHARE_GROUP_HEARTBEAT, _same(shares.beating("g-seen", ["mine"])), None),
    (ApiKey.SHARE_GROUP_HEARTBEAT, _same(shares.beating("g-mine", ["mine", "seen"])), None),
    (ApiKey.SHARE_GROUP_HEARTBEAT, _same(shares.beating("g-mine", ["theirs"])), None),
    (ApiKey.SHARE_GROUP_DESCRIBE, _same(shares.describing_groups(*GROUPS)), None),
    (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, _same(shares.describing_offsets("g-theirs")), None),
    (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, _same(shares.describing_offsets("g-seen")), None),
    (
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        _same(shares.describing_offsets("g-mine", {"theirs": [0], "absent": [1]})),
        None,
    ),
    *[
        (key, _same(request), None)
        for each in GROUPS
        for key, request in (
            (ApiKey.ALTER_SHARE_GROUP_OFFSETS, shares.altering_offsets(each, {"theirs": {0: 1}})),
            (ApiKey.ALTER_SHARE_GROUP_OFFSETS, shares.altering_offsets(each, {"mine": {0: 1}})),
            (ApiKey.DELETE_SHARE_GROUP_OFFSETS, shares.deleting_offsets(each, "mine", "theirs")),
        )
    ],
    *[(ApiKey.INIT_PRODUCER_ID, q.introducing(each), range(6)) for each in TRANSACTIONS[1:]],
    *[(ApiKey.ADD_PARTITIONS_TO_TXN, q.adding(each), None) for each in TRANSACTIONS],
    *[
        (ApiKey.ADD_OFFSETS_TO_TXN, q.adding_offsets(name, each), None)
        for name in TRANSACTIONS
        for each in GROUPS[1:]
    ],
    *[
        (ApiKey.TXN_OFFSET_COMMIT, q.committing_in(name, each), None)
        for name in TRANSACTIONS
        for each in GROUPS[1:]
    ],
    *[(ApiKey.END_TXN, q.ending(each), None) for each in TRANSACTIONS[1:]],
    (ApiKey.WRITE_TXN_MARKERS, q.marking, None),
    (ApiKey.DESCRIBE_TRANSACTIONS, q.describing_transactions(*TRANSACTIONS, "t-both"), None),
    (ApiKey.LIST_TRANSACTIONS, q.listing_transactions, None),
]


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    directory = tmp_path_factory.mktemp("apache")
    with ApacheNode(directory, config=OPEN_UNTIL_SAID) as node:
        yield node  # type: ignore[misc]
        node.kill()  # it has too few rights itself to leave its cluster in good order


async def test_who_has_few_rights_hears_the_same(apache: ApacheNode, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        theirs = await stack.enter_async_context(asking(apache.port))
        ours = await stack.enter_async_context(asking_node(tmp_path, OPEN_UNTIL_SAID))
        worlds = [(asker, await _fill(asker)) for asker in (theirs, ours)]
        for asker, _ in worlds:
            await _write(asker)
        different = []
        for number, (key, make, versions) in enumerate(QUESTIONS):
            for version in versions or API[int(key)].versions:
                told, own = [
                    _levelled(await asker.ask(make(version, ids), version)) for asker, ids in worlds
                ]
                different += [
                    f"question {number}, {key.name} {version}: {each}"
                    for each in differences(own, told)
                ]
        assert not different, "\n".join(different)


async def _fill(asker: Asker) -> dict[str, bytes]:
    """Topics with records, groups with offsets and members, transactions that are open."""
    ids = {}
    for name in ("mine", "seen", "theirs"):
        ids[name] = await asker.create(name, 2)
        await _led(asker, name, 2)
        for index in (0, 1):
            await asker.produce(name, batch(2), index)
    for kind in (0, 1):
        await _coordinated(asker, kind)
    for each in GROUPS:
        await asker.ask(q.committing(each, ("mine", "seen", "theirs"))(9, ids), 9)
    for each, names in (("c-mine", ["mine"]), ("c-both", ["mine", "theirs"])):
        await asker.ask(q.subscribing(each, names)(1, ids), 1)
    for each in (*TRANSACTIONS, "t-both"):
        producer = await _introduced(asker, each)
        names_of = ("mine", "theirs") if each == "t-both" else ("mine",)
        added = await asker.ask(q.adding(each, names_of, producer)(3, ids), 3)
        assert (
            not added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        ), added
    return ids


async def _introduced(asker: Asker, name: str) -> tuple[int, int]:
    for _ in range(200):
        answer = await asker.ask(q.introducing(name)(5, {}), 5)
        if not answer.error_code:
            return answer.producer_id, answer.producer_epoch
        await asyncio.sleep(0.05)
    raise AssertionError(answer)


async def _write(asker: Asker) -> None:
    """The entries, all at once; then wait until they count."""
    answer = await asker.ask(creation(RULES), 3)
    assert not any(each.error_code for each in answer.results), answer
    for _ in range(200):
        found = await asker.ask(q.finding(0, "g-theirs")(4, {}), 4)
        if found.coordinators[0].error_code:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the entries never counted")


def _levelled(answer: Any) -> Any:
    """The answer without what is another each time, or each one's own affair."""
    if hasattr(answer, "heartbeat_interval_ms"):
        answer.heartbeat_interval_ms = int(answer.heartbeat_interval_ms > 0)
    for state in getattr(answer, "transaction_states", ()):
        state.producer_id = 0
        for topic in getattr(state, "topics", ()):
            topic.partitions.sort()
        if hasattr(state, "transaction_start_time_ms"):
            state.transaction_start_time_ms = int(state.transaction_start_time_ms > 0)
    return answer

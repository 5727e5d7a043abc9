"""Offsets and groups without members: Penstock and Apache Kafka give the same answers.

Each question goes to both, in every version that can ask it. What cannot be equal (addresses, ids)
is taken out before the answers are compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.model.errors import ErrorCode
from penstock.protocol.generated import (
    delete_groups,
    describe_configs,
    end_txn,
    find_coordinator,
    init_producer_id,
    list_groups,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    txn_offset_commit,
)
from penstock.protocol.message import Message
from penstock.protocol.registry import API
from tests.oracle.nodes import ApacheNode
from tests.unit.server.asking import Asker, asking, asking_node
from tests.unit.server.test_same_answers import _led, differences

pytestmark = pytest.mark.java

BY_ID_FROM = 10
NOWHERE = b"no such topic id"

Make = Callable[[int, dict[str, bytes]], Message]
"""A request in a version, with the ids of the topics on the node that gets it."""


class Pair:
    """Both brokers, asked together."""

    def __init__(self, apache: Asker, penstock: Asker) -> None:
        self.askers = (apache, penstock)
        self.ids: tuple[dict[str, bytes], dict[str, bytes]] = ({}, {})

    async def create(self, name: str, partitions: int = 1) -> None:
        for asker, ids in zip(self.askers, self.ids, strict=True):
            ids[name] = await asker.create(name, partitions)
            await _led(asker, name, partitions)

    async def agree(self, make: Make, api: type[Message], versions: range | None = None) -> Any:
        """Ask both in all versions; answers Penstock's last answer."""
        spec = API[api.API_KEY]
        answer: Any = None
        for version in versions or spec.versions:
            theirs, answer = [
                await asker.ask(make(version, ids), version)
                for asker, ids in zip(self.askers, self.ids, strict=True)
            ]
            different = differences(answer, theirs)
            assert not different, (f"version {version}", *different)
        return answer


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    with ApacheNode(tmp_path_factory.mktemp("apache")) as node:
        yield node  # type: ignore[misc]


@pytest.fixture
async def pair(apache: ApacheNode, tmp_path: Path) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        theirs = await stack.enter_async_context(asking(apache.port))
        ours = await stack.enter_async_context(asking_node(tmp_path))
        for asker in (theirs, ours):
            await _coordinated(asker)
        yield Pair(theirs, ours)


async def _coordinated(asker: Asker, kind: int = 0) -> None:
    """Wait until all shards are there and loaded: with Kafka that takes some tries."""
    find = find_coordinator.FindCoordinatorRequest(coordinator_keys=["any"], key_type=kind)
    look = offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(group_id=str(each), topics=[])
            for each in range(500)
        ]
    )
    for _ in range(200):
        found = await asker.ask(find, 4)
        if not found.coordinators[0].error_code:
            looked = await asker.ask(look, 8)
            if not any(each.error_code for each in looked.groups):
                return
        await asyncio.sleep(0.05)
    raise AssertionError(f"no coordinator: {found}")


@pytest.fixture
def group(topic: str) -> str:
    """A group name that no other test uses."""
    return f"g-{topic}"


def committing(group_id: str, topic: str, *offsets: int, **options: Any) -> Make:
    """A commit for partitions 0, 1, ... of a topic."""
    metadata = options.pop("metadata", "")
    epoch = options.pop("leader_epoch", -1)

    def make(version: int, ids: dict[str, bytes]) -> Message:
        by_id = version >= BY_ID_FROM
        place = {"topic_id": ids.get(topic, NOWHERE)} if by_id else {"name": topic}
        return offset_commit.OffsetCommitRequest(
            group_id=group_id,
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    partitions=[
                        offset_commit.OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_metadata=metadata,
                            committed_leader_epoch=epoch if version >= 6 else -1,
                        )
                        for index, offset in enumerate(offsets)
                    ],
                    **place,
                )
            ],
            **options,
        )

    return make


def fetching(group_id: str, topics: dict[str, list[int]] | None, **options: Any) -> Make:
    """A fetch of some topics' offsets, or of all."""
    member = {key: options.pop(key) for key in ("member_id", "member_epoch") if key in options}

    def make(version: int, ids: dict[str, bytes]) -> Message:
        stable = {"require_stable": options.get("require_stable", False)} if version >= 7 else {}
        if version < 8:
            return offset_fetch.OffsetFetchRequest(
                group_id=group_id,
                topics=None
                if topics is None
                else [
                    offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                    for name, indexes in topics.items()
                ],
                **stable,
            )
        return offset_fetch.OffsetFetchRequest(
            groups=[
                offset_fetch.OffsetFetchRequestGroup(
                    group_id=each,
                    topics=None
                    if topics is None
                    else [
                        offset_fetch.OffsetFetchRequestTopics(
                            partition_indexes=indexes,
                            **(
                                {"topic_id": ids.get(name, NOWHERE)}
                                if version >= BY_ID_FROM
                                else {"name": name}
                            ),
                        )
                        for name, indexes in topics.items()
                    ],
                    **(member if version >= 9 else {}),
                )
                for each in (group_id, "nobody")
            ],
            **stable,
        )

    return make


COMMIT = offset_commit.OffsetCommitRequest
FETCH = offset_fetch.OffsetFetchRequest
ALL_TOPICS_FROM = range(2, 11)


async def test_offsets_are_committed_and_fetched(pair: Pair, topic: str, group: str) -> None:
    await pair.create(topic, 3)
    await pair.agree(fetching(group, {topic: [0, 1, 7]}), FETCH)
    await pair.agree(committing(group, topic, 5, 0, metadata="where I was"), COMMIT)
    await pair.agree(fetching(group, {topic: [0, 1, 2, 7], "nowhere": [0]}), FETCH)
    await pair.agree(fetching(group, None), FETCH, ALL_TOPICS_FROM)
    await pair.agree(fetching(group, {}), FETCH)
    await pair.agree(fetching(group, None, require_stable=True), FETCH, range(7, 11))
    await pair.agree(committing(group, topic, 9, leader_epoch=3, metadata=None), COMMIT)
    answer = await pair.agree(fetching(group, {topic: [0]}), FETCH)
    found = answer.groups[0].topics[0].partitions[0]
    assert (found.committed_offset, found.committed_leader_epoch) == (9, 3)


async def test_commits_that_make_no_sense(pair: Pair, topic: str, group: str) -> None:
    await pair.create(topic, 2)
    await pair.agree(committing(group, "nowhere", 1), COMMIT)
    await pair.agree(committing(group, topic, 1, 1, 1, 1), COMMIT)
    await pair.agree(committing(group, topic, -5), COMMIT)
    await pair.agree(committing(group, topic), COMMIT)
    for member_id, generation in (("", 3), ("somebody", 3), ("somebody", -1), ("", 0)):
        for group_id in (group, group + "-2"):
            await pair.agree(
                committing(
                    group_id,
                    topic,
                    1,
                    1,
                    1,
                    member_id=member_id,
                    generation_id_or_member_epoch=generation,
                ),
                COMMIT,
            )
    await pair.agree(
        committing(group, topic, 1, group_instance_id="one", generation_id_or_member_epoch=1),
        COMMIT,
        range(7, 11),
    )
    await pair.agree(committing("", topic, 1), COMMIT)
    await pair.agree(fetching("", {topic: [0]}), FETCH)


async def test_metadata_is_measured_in_javas_characters(pair: Pair, topic: str, group: str) -> None:
    await pair.create(topic)
    for note in ("x" * 4096, "x" * 4097, "ä" * 4096, "😀" * 2048, "😀" * 2048 + "x"):
        await pair.agree(committing(group, topic, 1, metadata=note), COMMIT)
        await pair.agree(fetching(group, {topic: [0]}), FETCH)


async def test_a_member_that_nobody_knows_fetches(pair: Pair, topic: str, group: str) -> None:
    await pair.create(topic)
    await pair.agree(committing(group, topic, 1), COMMIT)
    for member_id, epoch in (("somebody", 3), ("somebody", -1), (None, 3), ("", 0)):
        for group_id in (group, group + "-2"):
            await pair.agree(
                fetching(group_id, {topic: [0]}, member_id=member_id, member_epoch=epoch),
                FETCH,
                range(9, 11),
            )


async def test_offsets_that_old_clients_keep_for_a_time(pair: Pair, topic: str, group: str) -> None:
    await pair.create(topic)
    await pair.agree(committing(group, topic, 1, retention_time_ms=60_000), COMMIT, range(2, 5))
    await pair.agree(fetching(group, {topic: [0]}), FETCH)


async def test_offsets_of_a_topic_that_was_made_anew(pair: Pair, topic: str, group: str) -> None:
    from penstock.protocol.generated.delete_topics import DeleteTopicsRequest

    await pair.create(topic)
    await pair.agree(committing(group, topic, 1), COMMIT)
    for asker in pair.askers:
        await asker.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000), 5)
    await asyncio.sleep(0.5)  # tombstones are written behind the deletion's back
    await pair.create(topic)
    await pair.agree(fetching(group, {topic: [0]}), FETCH)
    await pair.agree(fetching(group, None), FETCH, ALL_TOPICS_FROM)


def deleting(group_id: str, topics: dict[str, list[int]]) -> Make:
    return lambda version, ids: offset_delete.OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            offset_delete.OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    offset_delete.OffsetDeleteRequestPartition(partition_index=index)
                    for index in indexes
                ],
            )
            for name, indexes in topics.items()
        ],
    )


async def test_offsets_are_deleted(pair: Pair, topic: str, group: str) -> None:
    await pair.create(topic, 3)
    api = offset_delete.OffsetDeleteRequest
    await pair.agree(deleting(group, {topic: [0]}), api)
    await pair.agree(committing(group, topic, 1, 2, 3), COMMIT)
    await pair.agree(deleting(group, {topic: [0, 1, 8], "nowhere": [0]}), api)
    await pair.agree(deleting(group, {topic: [0], "nowhere": [0]}), api)
    await pair.agree(deleting(group, {"nowhere": [0]}), api)
    await pair.agree(deleting(group, {}), api)
    await pair.agree(deleting("", {topic: [0]}), api)
    await pair.agree(fetching(group, {topic: [0, 1, 2]}), FETCH)
    await pair.agree(fetching(group, None), FETCH, ALL_TOPICS_FROM)


async def test_groups_are_listed_and_deleted(pair: Pair, topic: str, group: str) -> None:
    await pair.create(topic)
    other = group + "-2"
    for each in (group, other, ""):
        await pair.agree(committing(each, topic, 1), COMMIT, range(9, 10))

    async def listed(**filters: Any) -> None:
        least = 5 if "types_filter" in filters else 4 if filters else 0
        versions = range(least, 6)
        for version in versions:
            answers = [
                await asker.ask(list_groups.ListGroupsRequest(**filters), version)
                for asker in pair.askers
            ]
            for answer in answers:
                answer.groups = [it for it in answer.groups if it.group_id in (group, other)]
            assert not differences(answers[1], answers[0]), (filters, version)

    await listed()
    for states in (["Empty"], ["empty"], ["Stable"], ["Stable", "EMPTY"], ["no such state"]):
        await listed(states_filter=states)
    for types in (["classic"], ["Classic"], ["consumer"], ["consumer", "CLASSIC"], ["no"]):
        await listed(types_filter=types)
    await listed(types_filter=["classic"], states_filter=["Stable"])

    api = delete_groups.DeleteGroupsRequest
    request = delete_groups.DeleteGroupsRequest
    await pair.agree(lambda *_: request(groups_names=[]), api)
    await pair.agree(lambda *_: request(groups_names=[group, group, "nobody"]), api, range(1))
    await pair.agree(lambda *_: request(groups_names=[group, "nobody", ""]), api)
    await listed()
    await pair.agree(fetching(group, {topic: [0]}), FETCH)
    await pair.agree(lambda *_: request(groups_names=[other]), api, range(2, 3))
    await listed()


def committing_in_transaction(group_id: str, topic: str, **options: Any) -> Make:
    producer_id = options.pop("producer_id", 4242)
    return lambda version, _: txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="nobody's",
        group_id=group_id,
        producer_id=producer_id,
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    txn_offset_commit.TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=5
                    )
                    for index in (0, 7)
                ],
            )
        ],
        **options,
    )


async def _verifying(asker: Asker, request: Message) -> None:
    """Wait until transactions are coordinated, too."""
    not_yet = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    for _ in range(200):
        answer = await asker.ask(request, 5)
        if not any(each.error_code in not_yet for each in answer.topics[0].partitions):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"no coordinator: {answer}")


async def test_offsets_in_transactions_that_nobody_began(
    pair: Pair, topic: str, group: str
) -> None:
    await pair.create(topic)
    for asker in pair.askers:
        await _coordinated(asker, kind=1)
    api = txn_offset_commit.TxnOffsetCommitRequest
    for asker in pair.askers:
        await _verifying(asker, committing_in_transaction(group, topic)(5, {}))
    await pair.agree(committing_in_transaction(group, topic), api)
    await pair.agree(committing_in_transaction("", topic), api)
    await pair.agree(committing_in_transaction(group, "nowhere"), api)
    await pair.agree(committing_in_transaction(group, topic, producer_id=-1), api)
    await pair.agree(fetching(group, {topic: [0]}, require_stable=True), FETCH)
    member = {"member_id": "somebody", "generation_id": 3}
    await pair.agree(committing_in_transaction(group, topic, **member), api, range(3, 6))


async def test_offsets_of_an_open_transaction_are_unstable(
    pair: Pair, topic: str, group: str
) -> None:
    await pair.create(topic)
    await pair.agree(committing(group, topic, 1), COMMIT)
    stable, any_time = (
        fetching(group, {topic: [0]}, require_stable=required) for required in (True, False)
    )
    for is_commit in (False, True):
        producers = [await _begun(asker, group, topic) for asker in pair.askers]
        await pair.agree(stable, FETCH, range(7, 11))
        await pair.agree(any_time, FETCH)
        await pair.agree(fetching(group, None, require_stable=True), FETCH, range(7, 11))
        for asker, producer in zip(pair.askers, producers, strict=True):
            producer.committed = is_commit
            ended = await asker.ask(producer, 5)
            assert not ended.error_code, ended
            await _stable(asker, stable(8, {}))
        answer = await pair.agree(stable, FETCH, range(7, 9))
        [found] = answer.groups[0].topics[0].partitions
        assert found.committed_offset == (5 if is_commit else 1)


async def _begun(asker: Asker, group: str, topic: str) -> end_txn.EndTxnRequest:
    """A transaction that has committed an offset; answers what would end it."""
    name = f"txn-{topic}"
    await _coordinated(asker, kind=1)
    begin = init_producer_id.InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=60_000
    )
    for _ in range(200):
        begun = await asker.ask(begin, 5)
        if not begun.error_code:
            break
        await asyncio.sleep(0.05)
    assert not begun.error_code, begun
    commit: Any = committing_in_transaction(group, topic, producer_id=begun.producer_id)(5, {})
    commit.transactional_id, commit.producer_epoch = name, begun.producer_epoch
    answer = await asker.ask(commit, 5)
    assert {(it.partition_index, it.error_code) for it in answer.topics[0].partitions} == {
        (0, ErrorCode.NONE),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    }
    return end_txn.EndTxnRequest(
        transactional_id=name,
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
    )


async def _stable(asker: Asker, request: Message) -> None:
    """Wait for the marker, which comes after the client's answer."""
    for _ in range(200):
        answer = await asker.ask(request, 8)
        if not answer.groups[0].topics[0].partitions[0].error_code:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"the transaction does not end: {answer}")


async def test_coordinators_are_found(pair: Pair) -> None:
    request = find_coordinator.FindCoordinatorRequest
    share = "group:" + "A" * 22 + ":0"
    await pair.agree(
        lambda version, _: (
            request(coordinator_keys=["a", "b", ""]) if version >= 4 else request(key="a")
        ),
        request,
    )
    for kind in (3, -1, 2):
        await pair.agree(
            lambda version, _, kind=kind: (
                request(coordinator_keys=["a"], key_type=kind)  # type: ignore[misc]
                if version >= 4
                else request(key="a", key_type=kind)
            ),
            request,
            range(1, 7),
        )
    keys = ["a", "a:b", "a:b:c", "a:b:0", share + "x", share[5:], " " + share[5:]]
    await pair.agree(lambda *_: request(coordinator_keys=keys, key_type=2), request, range(6, 7))
    await pair.agree(lambda *_: request(coordinator_keys=[share], key_type=2), request, range(4, 6))


async def test_the_first_question_makes_the_topic_and_is_answered(tmp_path: Path) -> None:
    request = find_coordinator.FindCoordinatorRequest
    share = "group:" + "A" * 22 + ":0"
    async with asking_node(tmp_path) as asker:
        for kind, key in ((0, "group"), (1, "transaction"), (2, share)):
            answer = await asker.ask(request(coordinator_keys=[key], key_type=kind), 6)
            [found] = answer.coordinators
            assert found.error_code == ErrorCode.NONE, found
            assert found.node_id == 1 and found.port > 0


async def test_an_internal_topic_is_the_same_whoever_asks_for_it_first(tmp_path: Path) -> None:
    """A consumer of an internal topic must not make it one of ordinary shape."""
    overrides = {"offsets.topic.num.partitions": "7", "offsets.topic.segment.bytes": "1234567"}
    async with asking_node(tmp_path, overrides) as asker:
        name = "__consumer_offsets"
        wanted = metadata.MetadataRequestTopic(name=name)
        await asker.ask(metadata.MetadataRequest(topics=[wanted]), 9)
        known = await asker.ask(metadata.MetadataRequest(topics=[wanted]), 9)
        assert len(known.topics[0].partitions) == 7 and known.topics[0].is_internal
        described = await asker.ask(
            describe_configs.DescribeConfigsRequest(
                resources=[
                    describe_configs.DescribeConfigsResource(resource_type=2, resource_name=name)
                ]
            ),
            4,
        )
        configs = {each.name: each.value for each in described.results[0].configs}
        assert configs["cleanup.policy"] == "compact"
        assert configs["segment.bytes"] == "1234567"

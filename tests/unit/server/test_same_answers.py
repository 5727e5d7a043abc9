"""Penstock and Apache Kafka, given the same bytes, give the same answers.

Both get the same topics and records; then each question goes to both, in every version that it has.
What cannot be equal (ids, addresses, paths, words) is taken out before the answers are compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.model.config import own
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import (
    delete_records,
    describe_cluster,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from penstock.protocol.message import Message, Part
from penstock.protocol.registry import API
from penstock.records.builder import BatchBuilder
from tests.oracle.nodes import ApacheNode
from tests.unit.server.asking import NOON, Asker, asking, asking_node, batch

pytestmark = pytest.mark.java

UNEQUAL = frozenset(
    (
        "batch_index_error_message",
        "cluster_id",
        "error_message",
        "host",
        "log_dir",
        "port",
        "session_id",
        "throttle_time_ms",
        "topic_id",
        "total_bytes",
        "usable_bytes",
    )
)
"""Fields of which only it is compared whether they say anything at all."""

Facts = dict[str, Any]
"""What an answer says, each value by its path."""


def facts_of(answer: Any, path: str = "") -> Facts:
    """An answer without what two nodes cannot have in common, in an order of its own."""
    found: Facts = {}
    if isinstance(answer, Part):
        for name in answer.__slots__:
            field = getattr(answer, name)
            if name in UNEQUAL:
                field = "something" if field else "nothing"
            found |= facts_of(field, f"{path}.{name}")
    elif isinstance(answer, list) and answer and isinstance(answer[0], Part):
        shared = [part for part in answer if getattr(part, "name", None) not in own.NAMES]
        parts = sorted((facts_of(part) for part in shared), key=repr)
        for at, part in enumerate(parts):
            found |= {f"{path}[{at}]{name}": value for name, value in part.items()}
    else:
        found[path] = bytes(answer) if isinstance(answer, memoryview) else answer
    return found


def differences(ours: Any, theirs: Any) -> list[str]:
    """Where two answers say different things, and what."""
    mine, other = facts_of(ours), facts_of(theirs)
    return [
        f"{path}: {mine.get(path, 'absent')!r}, Kafka says {other.get(path, 'absent')!r}"
        for path in sorted(mine.keys() | other.keys())
        if mine.get(path, "absent") != other.get(path, "absent")
    ]


class Pair:
    """Both brokers, asked together."""

    def __init__(self, apache: Asker, penstock: Asker) -> None:
        self.askers = (apache, penstock)
        self.ids: list[dict[str, bytes]] = [{}, {}]

    async def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        for asker, ids in zip(self.askers, self.ids, strict=True):
            ids[name] = await asker.create(name, partitions, named)
            await _led(asker, name, partitions)

    async def agree(self, request: Message, versions: range | None = None) -> Any:
        """Ask both in all versions that can say this; answers Penstock's last answer."""
        answer = None
        spec = API[request.API_KEY]
        for version in versions or range(spec.codec_versions.start, spec.versions.stop):
            theirs, answer = await self.ask(request, version)
            different = differences(answer, theirs)
            assert not different, (f"version {version}", *different, request)
        return answer

    async def ask(self, request: Message, version: int) -> list[Any]:
        """Apache's answer and ours."""
        return [
            await asker.ask(_with_ids(request, ids), version)
            for asker, ids in zip(self.askers, self.ids, strict=True)
        ]


async def _led(asker: Asker, topic: str, partitions: int) -> None:
    """Wait until a new topic can be used: Kafka answers its creation a moment before."""
    request = _list_offsets(topic, *[-1] * partitions)
    for _ in range(200):
        answer = await asker.ask(request, 5)
        if not any(item.error_code for item in answer.topics[0].partitions):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{topic} is not led: {answer}")


def _with_ids(request: Message, ids: dict[str, bytes]) -> Message:
    """Topics are named in tests; from where the ids count, they stand beside the names."""
    for topics in ("topics", "topic_data"):
        for topic in getattr(request, topics, None) or []:
            name = getattr(topic, "topic", None) or getattr(topic, "name", None)
            if "topic_id" in topic.__slots__ and request.API_KEY != ApiKey.METADATA:
                topic.topic_id = ids.get(name, b"unknown-topic-id")
    return request


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    with ApacheNode(tmp_path_factory.mktemp("apache")) as node:
        yield node  # type: ignore[misc]


@pytest.fixture
async def pair(apache: ApacheNode, tmp_path: Path) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        theirs = await stack.enter_async_context(asking(apache.port))
        ours = await stack.enter_async_context(asking_node(tmp_path))
        yield Pair(theirs, ours)


def _produce(topic: str, *records: bytes | None, acks: int = -1) -> produce.ProduceRequest:
    return produce.ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            produce.TopicProduceData(
                name=topic,
                partition_data=[
                    produce.PartitionProduceData(index=index, records=data)
                    for index, data in enumerate(records)
                ],
            )
        ],
    )


def _fetch(topic: str, *offsets: int, **options: Any) -> fetch.FetchRequest:
    item_options = {
        key: options.pop(key)
        for key in ("current_leader_epoch", "last_fetched_epoch", "partition_max_bytes")
        if key in options
    }
    item_options.setdefault("partition_max_bytes", 1 << 20)
    options.setdefault("max_bytes", 1 << 20)
    return fetch.FetchRequest(
        topics=[
            fetch.FetchTopic(
                topic=topic,
                partitions=[
                    fetch.FetchPartition(partition=index, fetch_offset=offset, **item_options)
                    for index, offset in enumerate(offsets)
                ],
            )
        ],
        **options,
    )


def _list_offsets(topic: str, *timestamps: int, **options: Any) -> list_offsets.ListOffsetsRequest:
    epoch = options.pop("current_leader_epoch", -1)
    return list_offsets.ListOffsetsRequest(
        replica_id=options.pop("replica_id", -1),
        topics=[
            list_offsets.ListOffsetsTopic(
                name=topic,
                partitions=[
                    list_offsets.ListOffsetsPartition(
                        partition_index=index, timestamp=timestamp, current_leader_epoch=epoch
                    )
                    for index, timestamp in enumerate(timestamps)
                ],
            )
        ],
        **options,
    )


async def test_produce_of_good_and_bad_batches(pair: Pair, topic: str) -> None:
    await pair.create(topic, 3)
    await pair.agree(_produce(topic, batch(3), batch(2), batch(1)))
    good = batch(2)
    flipped = good[:-1] + bytes([good[-1] ^ 1])
    old_magic = good[:16] + b"\x01" + good[17:]
    for bad in (flipped, old_magic, good[:-5], good + good, good[:40], b"", b"x" * 10):
        await pair.agree(_produce(topic, bad, good))
    for acks in (2, -2, 99):
        await pair.agree(_produce(topic, good, acks=acks))
    await pair.agree(_produce("nowhere", good))
    await pair.agree(_produce(topic, good, good, good, good))  # there is no fourth partition
    await pair.agree(_produce(topic, batch(1, transactional=True)))


async def test_produce_of_idempotent_batches(pair: Pair, topic: str) -> None:
    await pair.create(topic)

    async def send(sequence: int, epoch: int = 0, count: int = 2) -> None:
        options = {"producer_id": 4242, "producer_epoch": epoch, "base_sequence": sequence}
        await pair.agree(_produce(topic, batch(count, **options)), range(9, 10))

    for sequence in (0, 2, 4):
        await send(sequence)
    await send(2)  # a retry: answered with the offsets of the first time
    await send(9)  # a gap
    await send(6, epoch=1)  # a new epoch begins at zero
    await send(0, epoch=1)
    await send(6)  # a zombie
    await pair.agree(
        describe_producers.DescribeProducersRequest(
            topics=[
                describe_producers.TopicRequest(name=topic, partition_indexes=[0, 1]),
                describe_producers.TopicRequest(name="nowhere", partition_indexes=[0]),
            ]
        )
    )


async def test_produce_to_topics_that_look_inside(pair: Pair, topic: str) -> None:
    await pair.create(topic, cleanup_policy="compact")
    await pair.agree(_produce(topic, batch(2)))
    await pair.agree(_produce(topic, _batch_without_a_key()))
    small = f"{topic}-small"
    await pair.create(small, max_message_bytes="100")
    await pair.agree(_produce(small, batch(1)))
    await pair.agree(_produce(small, batch(10)))
    old = f"{topic}-old"
    await pair.create(old, message_timestamp_before_max_ms="1000")
    await pair.agree(_produce(old, batch(2)))


def _batch_without_a_key() -> bytes:
    builder = BatchBuilder()
    builder.append(b"k", b"v", NOON)
    builder.append(None, b"v", NOON)
    return builder.build()


async def test_fetch_without_a_session(pair: Pair, topic: str) -> None:
    await pair.create(topic, 3)
    for number in range(3):
        await pair.agree(_produce(topic, batch(3, 3 * number), batch(1)), range(9, 10))
    await pair.agree(_fetch(topic, 0, 0, 0))
    await pair.agree(_fetch(topic, 4, 3, 0))  # inside a batch, at the end, in an empty one
    await pair.agree(_fetch(topic, 10, -1, 1))  # out of range in three ways
    await pair.agree(_fetch(topic, 0, 0, 0, 0))
    await pair.agree(_fetch("nowhere", 0))
    await pair.agree(_fetch(topic, 0, 0, isolation_level=1))
    await pair.agree(_fetch(topic, 0, 0, 0, max_bytes=1))
    await pair.agree(_fetch(topic, 0, 0, 0, max_bytes=200))
    await pair.agree(_fetch(topic, 0, 0, 0, partition_max_bytes=1))
    await pair.agree(_fetch(topic, 3, 1, partition_max_bytes=150))
    await pair.agree(_fetch(topic, 9, min_bytes=1, max_wait_ms=50))


@pytest.mark.parametrize("compression", range(5))
async def test_compressed_batches(pair: Pair, topic: str, compression: int) -> None:
    await pair.create(topic)
    await pair.agree(_produce(topic, batch(20, compression=compression)))
    await pair.agree(_fetch(topic, 0))


async def test_fetch_of_a_topic_that_old_clients_cannot_read(pair: Pair, topic: str) -> None:
    await pair.create(topic, compression_type="zstd")
    await pair.agree(_produce(topic, batch(20, compression=4)), range(9, 10))
    await pair.agree(_fetch(topic, 0))


async def test_odd_requests_to_produce_and_fetch(pair: Pair, topic: str) -> None:
    await pair.create(topic, 2)
    await pair.agree(_produce(topic, batch(3), batch(3)), range(9, 10))
    for limits in (
        {"partition_max_bytes": 0},
        {"max_bytes": 0},
        {"min_bytes": -5, "max_wait_ms": -5},
    ):
        await pair.agree(_fetch(topic, 0, 0, **limits))
    await pair.agree(fetch.FetchRequest(topics=[], max_bytes=1000))
    await pair.agree(produce.ProduceRequest(acks=-1, timeout_ms=5000))
    negative = _fetch(topic, 0)
    negative.topics[0].partitions[0].partition = -1
    await pair.agree(negative)
    negative_produce = _produce(topic, batch(1))
    negative_produce.topic_data[0].partition_data[0].index = -1
    await pair.agree(negative_produce)


async def test_fetch_in_another_leader_epoch(pair: Pair, topic: str) -> None:
    await pair.create(topic)
    await pair.agree(_produce(topic, batch(3)), range(9, 10))
    for epoch in (0, 1, 7):
        await pair.agree(_fetch(topic, 0, current_leader_epoch=epoch), range(9, 19))
    for epoch in (0, 1, 7):
        await pair.agree(_fetch(topic, 0, last_fetched_epoch=epoch), range(12, 19))
        await pair.agree(_fetch(topic, 5, last_fetched_epoch=epoch), range(12, 19))


async def test_a_topic_that_wants_more_replicas_in_sync_than_it_has(pair: Pair, topic: str) -> None:
    await pair.create(topic, min_insync_replicas="2")
    for acks in (-1, 1):
        await pair.agree(_produce(topic, batch(3), acks=acks))
    await pair.agree(_fetch(topic, 0))


async def test_fetch_as_a_replica_that_there_is_not(pair: Pair, topic: str) -> None:
    await pair.create(topic)
    await pair.agree(_produce(topic, batch(3)), range(9, 10))
    for epoch in (-1, 0, 7):
        request = _fetch(topic, 0, current_leader_epoch=epoch, replica_id=7)
        await pair.agree(request, range(9, 15))
        stated = _fetch(topic, 0, current_leader_epoch=epoch)
        stated.replica_state = fetch.ReplicaState(replica_id=7, replica_epoch=1)
        await pair.agree(stated, range(15, 19))


async def test_fetch_as_a_tool_that_looks_at_one_replica_after_the_other(
    pair: Pair, topic: str
) -> None:
    await pair.create(topic)
    await pair.agree(_produce(topic, batch(3)), range(9, 10))
    for offset in (0, 3, 4):
        stated = _fetch(topic, offset)
        stated.replica_state = fetch.ReplicaState(replica_id=-2)
        await pair.agree(stated, range(15, 19))
        await pair.agree(_list_offsets(topic, -1, -2, replica_id=-2))


async def test_fetch_sessions_that_do_not_exist(pair: Pair, topic: str) -> None:
    await pair.create(topic)
    for epoch in (-1, 0, 1, 5, -7):
        await pair.agree(_fetch(topic, 0, session_id=77, session_epoch=epoch), range(7, 19))


async def test_a_fetch_session_from_its_opening_to_its_end(pair: Pair, topic: str) -> None:
    await pair.create(topic, 3)
    await pair.agree(_produce(topic, batch(3), batch(3)), range(9, 10))
    for version in (7, 12, 13, 18):
        theirs, ours = await pair.ask(_fetch(topic, 0, 0, 0, session_epoch=0), version)
        assert not differences(ours, theirs)
        sessions = (theirs.session_id, ours.session_id)
        assert all(sessions)
        steps = [
            _fetch(topic, session_epoch=1),  # nothing changed: the same data again
            _fetch(topic, 3, session_epoch=2),  # partition 0 is read to its end
            _fetch(topic, 3, 3, session_epoch=3),  # and 1 as well: nothing new at all
            _fetch(topic, 9, session_epoch=4),  # out of range
            _fetch(topic, 1, session_epoch=5),  # and back
            _fetch(topic, session_epoch=7),  # one epoch too far
            _fetch(topic, session_epoch=6),
            _fetch(topic, 0, session_epoch=-1),  # closed, and answered in full
            _fetch(topic, session_epoch=7),
        ]
        for step in steps:
            if not step.topics[0].partitions:
                step.topics = []
            answers = []
            for asker, ids, session in zip(pair.askers, pair.ids, sessions, strict=True):
                step.session_id = session
                answers.append(await asker.ask(_with_ids(step, ids), version))
            assert not differences(answers[1], answers[0]), (version, step)


async def test_list_offsets(pair: Pair, topic: str) -> None:
    await pair.create(topic, 3)
    await pair.agree(_list_offsets(topic, -1, -2, -3))
    for number in range(3):
        await pair.agree(_produce(topic, batch(3, 3 * number), batch(1)), range(9, 10))
    for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, NOON, NOON + 1, NOON + 4000, NOON + 99_000):
        await pair.agree(_list_offsets(topic, timestamp, timestamp, timestamp, timestamp))
    await pair.agree(_list_offsets("nowhere", -1))
    await pair.agree(_list_offsets(topic, -1, isolation_level=1), range(2, 12))
    for replica in (-2, 1, 5):
        await pair.agree(_list_offsets(topic, -1, -2, NOON, replica_id=replica))
    for epoch in (0, 1):
        await pair.agree(_list_offsets(topic, -1, -2, current_leader_epoch=epoch), range(4, 12))
    twice = _list_offsets(topic, -1, -2)
    twice.topics[0].partitions[1].partition_index = 0
    await pair.agree(twice)


async def test_offset_for_leader_epoch(pair: Pair, topic: str) -> None:
    await pair.create(topic, 2)
    await pair.agree(_produce(topic, batch(3)), range(9, 10))

    def ask(name: str, *epochs: tuple[int, int]) -> Message:
        return offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic=name,
                    partitions=[
                        offset_for_leader_epoch.OffsetForLeaderPartition(
                            partition=index, leader_epoch=epoch, current_leader_epoch=current
                        )
                        for index, (epoch, current) in enumerate(epochs)
                    ],
                )
            ]
        )

    for epoch in (-1, 0, 1, 5):
        for current in (-1, 0, 3):
            await pair.agree(ask(topic, (epoch, current), (epoch, current), (epoch, current)))
    await pair.agree(ask("nowhere", (0, -1)))


async def test_delete_records(pair: Pair, topic: str) -> None:
    await pair.create(topic, 2)
    await pair.agree(_produce(topic, batch(5), batch(5)), range(9, 10))
    compacted = f"{topic}-compacted"
    await pair.create(compacted, cleanup_policy="compact")
    await pair.agree(_produce(compacted, batch(5)), range(9, 10))
    both = f"{topic}-both"
    await pair.create(both, cleanup_policy="compact,delete")
    await pair.agree(_produce(both, batch(5)), range(9, 10))

    def ask(name: str, *offsets: int) -> Message:
        return delete_records.DeleteRecordsRequest(
            topics=[
                delete_records.DeleteRecordsTopic(
                    name=name,
                    partitions=[
                        delete_records.DeleteRecordsPartition(partition_index=index, offset=offset)
                        for index, offset in enumerate(offsets)
                    ],
                )
            ],
            timeout_ms=1000,
        )

    for offset in (0, 2, 1, 6, -2, 5, -1):
        await pair.agree(ask(topic, offset, 3, 0))
    await pair.agree(ask("nowhere", 0))
    await pair.agree(ask(compacted, 3))
    await pair.agree(ask(both, 3))
    await pair.agree(_list_offsets(topic, -2, -2))
    await pair.agree(_fetch(topic, 0, 3))


async def test_describe_topic_partitions(pair: Pair, topic: str) -> None:
    for name, count in ((f"{topic}-a", 3), (f"{topic}-b", 2), (f"{topic}-c", 1)):
        await pair.create(name, count)

    def ask(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Message:
        found = describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
        )
        if cursor is not None:
            found.cursor = describe_topic_partitions.DescribeTopicPartitionsRequestCursor(
                topic_name=cursor[0], partition_index=cursor[1]
            )
        return found

    a, b, c = (f"{topic}-{letter}" for letter in "abc")
    await pair.agree(ask(a, b, c))
    await pair.agree(ask(c, a, "nowhere", "not a name!", b))
    for limit in (-1, 0, 1, 2, 3, 4, 5, 6, 7):
        await pair.agree(ask(a, b, c, limit=limit))
    for cursor in ((a, 0), (a, 2), (a, 3), (a, 99), (b, 1), (c, 0), (c, 1), (b, -1), ("zz", 0)):
        await pair.agree(ask(a, b, c, cursor=cursor))
        await pair.agree(ask(a, b, c, cursor=cursor, limit=1))
    await pair.agree(ask(a, c, cursor=(b, 0)))


async def test_describe_log_dirs(pair: Pair, topic: str) -> None:
    await pair.create(topic, 2)
    await pair.agree(_produce(topic, batch(5)), range(9, 10))

    def ask(*named: tuple[str, list[int]]) -> Message:
        return describe_log_dirs.DescribeLogDirsRequest(
            topics=[
                describe_log_dirs.DescribableLogDirTopic(topic=name, partitions=indexes)
                for name, indexes in named
            ]
        )

    await pair.agree(ask((topic, [0, 1])))
    await pair.agree(ask((topic, [1, 7]), ("nowhere", [0])))
    await pair.agree(ask())


async def test_describe_cluster(pair: Pair) -> None:
    await pair.agree(describe_cluster.DescribeClusterRequest())
    await pair.agree(
        describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    )
    await pair.agree(
        describe_cluster.DescribeClusterRequest(include_fenced_brokers=True), range(2, 3)
    )
    for kind in (0, 2, 3, -1):
        await pair.agree(describe_cluster.DescribeClusterRequest(endpoint_type=kind), range(1, 3))


async def test_init_producer_id(pair: Pair) -> None:
    def ask(**options: Any) -> Message:
        options.setdefault("transactional_id", None)
        return init_producer_id.InitProducerIdRequest(transaction_timeout_ms=60_000, **options)

    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    while (await pair.ask(ask(), 0))[0].error_code == loading:
        await asyncio.sleep(0.02)  # Kafka lets the first ones come again, Penstock lets them wait
    for version in range(6):
        theirs, ours = await pair.ask(ask(), version)
        assert differences(ours, theirs) in (
            [],
            [f".producer_id: {ours.producer_id}, Kafka says {theirs.producer_id}"],
        )
    await pair.agree(ask(transactional_id=""))
    await pair.agree(ask(producer_id=5), range(3, 6))
    await pair.agree(ask(producer_epoch=5), range(3, 6))


async def test_metadata(pair: Pair, topic: str) -> None:
    await pair.create(topic, 2)

    def ask(*names: str | None, topic_ids: bool = False, **options: Any) -> Message:
        return metadata.MetadataRequest(
            topics=[
                metadata.MetadataRequestTopic(
                    name=name, topic_id=b"unknown-topic-id" if topic_ids else ZERO_UUID
                )
                for name in names
            ],
            **{"allow_auto_topic_creation": False, **options},
        )

    await pair.agree(ask(topic, allow_auto_topic_creation=True))
    await pair.agree(ask(topic, "nowhere"), range(4, 14))
    await pair.agree(ask("not a name!", "x" * 250, "."), range(4, 14))
    await pair.agree(ask(), range(4, 14))
    await pair.agree(ask(topic, include_topic_authorized_operations=True), range(8, 14))
    await pair.agree(ask(topic, include_cluster_authorized_operations=True), range(8, 11))
    await pair.agree(ask(topic, None), range(10, 12))
    await pair.agree(ask(None, topic_ids=True), range(10, 14))
    await pair.agree(ask(topic, "nowhere", topic_ids=True), range(10, 12))

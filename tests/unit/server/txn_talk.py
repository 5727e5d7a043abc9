"""A transactional producer made of bare requests, which notes all that it is told.

Producer ids are noted in the order of their first appearance and times only as set or not, so that
the notes of the same talk with two brokers can be compared.
"""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.coordination.keys import shard_of
from penstock.coordination.txn.states import TxnState
from penstock.model.errors import ErrorCode
from penstock.protocol.generated import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    list_transactions,
    produce,
    write_txn_markers,
)
from penstock.protocol.record_frames import TRANSACTION
from penstock.records.batch import CONTROL, HEAD_SIZE, read_head
from penstock.records.control import read_marker
from penstock.records.record import iterate
from tests.unit.server.asking import Asker, batch

SHARDS = 50
STATE_TOPIC = "__transaction_state"


class Talk:
    """One transactional id's producer, over one connection."""

    def __init__(self, asker: Asker, name: str) -> None:
        self.asker = asker
        self.name = name
        self.topic = f"topic-of-{name}"
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[int, int] = {}
        self.notes: list[str] = []
        self.ids: list[int] = []
        self.topic_id = b""

    async def open(self, partitions: int = 3, **configs: str) -> Talk:
        """Find the coordinator, and have a topic to write to."""
        named = {key.replace("_", "."): value for key, value in configs.items()}
        self.topic_id = await self.asker.create(self.topic, partitions, named)
        request = find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=[self.name])
        for _ in range(500):
            found = (await self.asker.ask(request, 4)).coordinators[0]
            if found.error_code == 0 and await self._answers() and await self._has_ids():
                return self
            await asyncio.sleep(0.02)
        raise AssertionError(found)

    async def _has_ids(self) -> bool:
        request = init_producer_id.InitProducerIdRequest(transactional_id=None)
        return not (await self.asker.ask(request, 4)).error_code

    async def _answers(self) -> bool:
        request = describe_transactions.DescribeTransactionsRequest(transactional_ids=[self.name])
        state = (await self.asker.ask(request, 0)).transaction_states[0]
        offsets = list_offsets.ListOffsetsRequest(
            topics=[
                list_offsets.ListOffsetsTopic(
                    name=self.topic,
                    partitions=[
                        list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1)
                        for index in range(3)
                    ],
                )
            ]
        )
        led = (await self.asker.ask(offsets, 5)).topics[0].partitions
        loading = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return state.error_code not in loading and not any(each.error_code for each in led)

    def note(self, what: str, error: int, *more: object) -> ErrorCode:
        said = ErrorCode(error)
        self.notes.append(" ".join((what, said.name, *map(str, more))))
        return said

    def alias(self, producer_id: int) -> str:
        """A producer id by the order in which it was first seen."""
        if producer_id < 0:
            return "nobody"
        if producer_id not in self.ids:
            self.ids.append(producer_id)
        return f"producer-{self.ids.index(producer_id)}"

    # -- requests -----------------------------------------------------------------------------

    async def init(
        self, version: int = 5, *, timeout_ms: int = 60_000, resume: bool = False, **changes: Any
    ) -> ErrorCode:
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=timeout_ms
        )
        if resume:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        _change(request, changes)
        answer = await self.asker.ask(request, version)
        who = self.alias(answer.producer_id)
        error = self.note(f"init {version}", answer.error_code, who, answer.producer_epoch)
        if not error:
            self._become(answer.producer_id, answer.producer_epoch)
        return error

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    async def add(self, *indexes: int, version: int = 3, **changes: Any) -> list[ErrorCode]:
        topic = changes.pop("topic", self.topic)
        topics = [
            add_partitions_to_txn.AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))
        ]
        request = add_partitions_to_txn.AddPartitionsToTxnRequest()
        if version < 4:
            request.v3_and_below_transactional_id = changes.get("name", self.name)
            request.v3_and_below_producer_id = changes.get("producer_id", self.producer_id)
            request.v3_and_below_producer_epoch = changes.get("epoch", self.epoch)
            request.v3_and_below_topics = topics
        else:
            request.transactions = [
                add_partitions_to_txn.AddPartitionsToTxnTransaction(
                    transactional_id=changes.get("name", self.name),
                    producer_id=changes.get("producer_id", self.producer_id),
                    producer_epoch=changes.get("epoch", self.epoch),
                    verify_only=changes.get("verify_only", False),
                    topics=topics,
                )
            ]
        answer = await self.asker.ask(request, version)
        if version < 4:
            results = answer.results_by_topic_v3_and_below
        else:
            results = answer.results_by_transaction[0].topic_results
        found = sorted(
            (each.partition_index, each.partition_error_code)
            for result in results
            for each in result.results_by_partition
        )
        return [self.note(f"add {version} {index}", error) for index, error in found]

    async def add_offsets(self, group: str, version: int = 4, **changes: Any) -> ErrorCode:
        request = add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        _change(request, changes)
        answer = await self.asker.ask(request, version)
        return self.note(f"add offsets {version}", answer.error_code)

    async def send(
        self, *indexes: int, version: int = 13, transactional: bool = True, **changes: Any
    ) -> list[ErrorCode]:
        """One record to each of these partitions."""
        data = []
        for index in indexes:
            sequence = self.sequences.get(index, 0)
            records = batch(
                producer_id=changes.get("producer_id", self.producer_id),
                producer_epoch=changes.get("epoch", self.epoch),
                base_sequence=changes.get("sequence", sequence),
                transactional=transactional,
            )
            data.append(produce.PartitionProduceData(index=index, records=records))  # type: ignore[arg-type]
        request = produce.ProduceRequest(
            transactional_id=changes.get("name", self.name),
            acks=changes.get("acks", -1),
            timeout_ms=10_000,
            topic_data=[
                produce.TopicProduceData(
                    name=self.topic, topic_id=self.topic_id, partition_data=data
                )
            ],
        )
        answer = await self.asker.ask(request, version)
        errors = []
        answers = answer.responses[0].partition_responses
        for each in sorted(answers, key=lambda each: each.index):
            error = self.note(f"send {version} {each.index}", each.error_code, each.base_offset)
            if not error and "sequence" not in changes:
                self.sequences[each.index] = self.sequences.get(each.index, 0) + 1
            errors.append(error)
        return errors

    async def end(self, commit: bool = True, version: int = 5, **changes: Any) -> ErrorCode:
        request = end_txn.EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        _change(request, changes)
        answer = await self.asker.ask(request, version)
        more: tuple[object, ...] = ()
        if version >= 5:
            more = (self.alias(answer.producer_id), answer.producer_epoch)
        error = self.note(f"end {version} {commit}", answer.error_code, *more)
        if not error and version >= 5 and not changes:
            self._become(answer.producer_id, answer.producer_epoch)
        return error

    async def settle(self) -> None:
        """Wait until all markers are written."""
        for _ in range(500):
            if not (await self._described()).transaction_state.startswith("Prepare"):
                return
            await asyncio.sleep(0.02)
        raise AssertionError("the markers are never written")

    async def _described(self) -> Any:
        request = describe_transactions.DescribeTransactionsRequest(transactional_ids=[self.name])
        return (await self.asker.ask(request, 0)).transaction_states[0]

    async def describe(self, name: str | None = None) -> Any:
        wanted = self.name if name is None else name
        request = describe_transactions.DescribeTransactionsRequest(transactional_ids=[wanted])
        found = (await self.asker.ask(request, 0)).transaction_states[0]
        self.note(
            "describe",
            found.error_code,
            found.transaction_state,
            "nobody" if found.error_code else self.alias(found.producer_id),
            found.producer_epoch,
            found.transaction_timeout_ms,
            _set(found.transaction_start_time_ms),
            sorted((topic.topic, sorted(topic.partitions)) for topic in found.topics),
        )
        return found

    async def list(self, version: int = 2, **filters: Any) -> list[str]:
        request = list_transactions.ListTransactionsRequest(**filters)
        answer = await self.asker.ask(request, version)
        mine = sorted(
            (each.transactional_id, self.alias(each.producer_id), each.transaction_state)
            for each in answer.transaction_states
            if each.transactional_id.startswith(self.name)
        )
        unknown = sorted(answer.unknown_state_filters)
        self.note(f"list {version}", answer.error_code, mine, unknown)
        return [each[0] for each in mine]

    async def mark(
        self, commit: bool, *indexes: int, version: int = 2, **changes: Any
    ) -> list[Any]:
        """A marker, as coordinators and administrators send it."""
        marker = write_txn_markers.WritableTxnMarker(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            transaction_result=commit,
            coordinator_epoch=-1,
            topics=[
                write_txn_markers.WritableTxnMarkerTopic(
                    name=changes.pop("topic", self.topic), partition_indexes=list(indexes)
                )
            ],
        )
        _change(marker, changes)
        request = write_txn_markers.WriteTxnMarkersRequest(markers=[marker])
        answer = (await self.asker.ask(request, version)).markers[0]
        return [
            self.note(f"mark {version} {each.partition_index}", each.error_code)
            for topic in answer.topics
            for each in sorted(topic.partitions, key=lambda each: each.partition_index)
        ]

    # -- looking --------------------------------------------------------------------------------

    async def read(self, index: int, committed: bool = True) -> list[str]:
        """What a consumer is given: batches, last stable offset, aborted ranges."""
        found = await self._fetch(self.topic, self.topic_id, index, committed)
        lines = []
        for head, data in _batches(found.records):
            kind = "data"
            if head.attributes & CONTROL:
                marker = read_marker(data, 0, head)
                assert marker is not None
                kind = "commit" if marker.is_commit else "abort"
            who = self.alias(head.producer_id)
            lines.append(f"{head.base_offset} {kind} {who} {head.producer_epoch}")
        aborted = [
            (self.alias(each.producer_id), each.first_offset)
            for each in found.aborted_transactions or []
        ]
        self.note(
            f"read {index} {committed}",
            found.error_code,
            found.high_watermark,
            found.last_stable_offset,
            lines,
            aborted,
        )
        return lines

    async def _fetch(self, topic: str, topic_id: bytes, index: int, committed: bool) -> Any:
        request = fetch.FetchRequest(
            isolation_level=int(committed),
            max_bytes=1 << 20,
            topics=[
                fetch.FetchTopic(
                    topic=topic,
                    topic_id=topic_id,
                    partitions=[
                        fetch.FetchPartition(
                            partition=index, fetch_offset=0, partition_max_bytes=1 << 20
                        )
                    ],
                )
            ],
        )
        return (await self.asker.ask(request, 12)).responses[0].partitions[0]

    async def producers(self, index: int) -> None:
        request = describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name=self.topic, partition_indexes=[index])]
        )
        found = (await self.asker.ask(request, 0)).topics[0].partitions[0]
        self.note(
            f"producers {index}",
            found.error_code,
            [
                (
                    self.alias(each.producer_id),
                    each.producer_epoch,
                    each.last_sequence,
                    each.coordinator_epoch,
                    each.current_txn_start_offset,
                )
                for each in found.active_producers
            ],
        )

    async def written(self) -> None:
        """Note what the coordinator wrote down about this id."""
        shard = shard_of(self.name, SHARDS)
        found = await self._fetch(STATE_TOPIC, bytes(16), shard, True)
        for head, data in _batches(found.records):
            for record in iterate(data, 0, head=head):
                assert record.key is not None
                key: Any = TRANSACTION.read_key(record.key)
                if key.transactional_id == self.name:
                    self._note_record(record.value)

    def _note_record(self, data: memoryview | None) -> None:
        if data is None:
            self.notes.append("tombstone")
            return
        read: tuple[Any, int] = TRANSACTION.read_value(0, data)
        value, version = read
        partitions = value.transaction_partitions
        listed = partitions and sorted((it.topic, sorted(it.partition_ids)) for it in partitions)
        self.notes.append(
            f"record {version} {TxnState(value.transaction_status).title} "
            f"{self.alias(value.producer_id)} {value.producer_epoch} "
            f"previous {self.alias(value.previous_producer_id)} "
            f"next {self.alias(value.next_producer_id)} "
            f"client {value.client_transaction_version} timeout {value.transaction_timeout_ms} "
            f"started {_set(value.transaction_start_timestamp_ms)} {listed} "
            f"{_set(value.transaction_last_update_timestamp_ms)}"
        )


def _change(target: Any, changes: dict[str, Any]) -> None:
    for name, value in changes.items():
        setattr(target, name, value)


def _set(time: int) -> str:
    return "never" if time < 0 else "sometime"


def _batches(data: Any) -> Any:
    view = memoryview(data or b"")
    at = 0
    while at + HEAD_SIZE <= len(view):
        head = read_head(view, at)
        yield head, view[at : at + head.length + 12]
        at += head.length + 12

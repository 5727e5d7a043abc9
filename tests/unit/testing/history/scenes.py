"""What clients do to a broker that may have a bug: everything that a promise is about.

The clients speak through our own codecs, so that they can do what a library would not let them:
lose an answer and ask again, send out of order, come back from the dead. All of it is noted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.end_txn import EndTxnRequest
from penstock.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
from penstock.protocol.generated.init_producer_id import InitProducerIdRequest
from penstock.protocol.generated.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.generated.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.protocol.generated.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.records.builder import BatchBuilder
from penstock.testing import Broker
from penstock.testing.history import (
    Commit,
    Committed,
    End,
    Generation,
    Init,
    Marks,
    Place,
    Recorder,
    Send,
)
from penstock.testing.history.confluent import read_to_end
from tests.unit.server.asking import NOON, Asker, asking

LOG = Place("log", 0)
LEFT, RIGHT = Place("both", 0), Place("both", 1)
GROUP = "group"
NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)
READ_SECONDS_MAX = 2.0
READY_SECONDS_MAX = 10.0


def first_partition(response: Any) -> Any:
    return response.topics[0].partitions[0]


class Notebook:
    """The notes of all clients."""

    def __init__(self) -> None:
        self.recorders: list[Recorder] = []

    def of(self, client: str) -> Recorder:
        self.recorders.append(Recorder(client))
        return self.recorders[-1]


class Client:
    """A connection, and notes."""

    def __init__(self, asker: Asker, recorder: Recorder) -> None:
        self.asker = asker
        self.notes = recorder

    async def ask(
        self,
        request: Any,
        version: int,
        answer_of: Callable[[Any], Any] = lambda response: response,
    ) -> Any:
        """Ask until the coordinator is ready; `answer_of` finds what has the error code."""
        async with asyncio.timeout(READY_SECONDS_MAX):
            while True:
                answer = answer_of(await self.asker.ask(request, version))
                if answer.error_code not in NOT_READY:
                    return answer
                await asyncio.sleep(0.02)


class Writer(Client):
    """An idempotent producer, and a transactional one if it has an id."""

    producer_id = -1
    epoch = -1
    transaction = ""

    def __init__(self, asker: Asker, recorder: Recorder, transactional_id: str = "") -> None:
        super().__init__(asker, recorder)
        self.transactional_id = transactional_id
        self.sequences: dict[Place, int] = {}

    async def init(self) -> None:
        """Get an id, and fence who had it before."""
        init = None
        if self.transactional_id:
            init = self.notes.begin(Init(transactional_id=self.transactional_id))
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id or None, transaction_timeout_ms=60_000
        )
        response = await self.ask(request, 5)
        assert response.error_code == 0, ErrorCode(response.error_code)
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        if init is not None:
            self.notes.ok(init, epoch=self.epoch)

    def batch(self, place: Place, values: list[str]) -> bytes:
        """The next batch in line."""
        sequence = self.sequences.get(place, 0)
        self.sequences[place] = sequence + len(values)
        builder = BatchBuilder(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=bool(self.transactional_id),
        )
        for value in values:
            builder.append(None, value.encode(), NOON)
        return builder.build()

    def begin(self, place: Place, values: list[str]) -> list[Send]:
        return [
            self.notes.begin(
                Send(
                    topic=place.topic,
                    partition=place.partition,
                    value=value,
                    transaction=self.transaction,
                )
            )
            for value in values
        ]

    async def deliver(self, place: Place, batch: bytes) -> Any:
        """One attempt, and what the broker said to it."""
        one = PartitionProduceData(index=place.partition, records=batch)
        request = ProduceRequest(
            transactional_id=self.transactional_id or None,
            acks=-1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=place.topic, partition_data=[one])],
        )
        return await self.ask(
            request, 12, lambda response: response.responses[0].partition_responses[0]
        )

    def conclude(self, sends: list[Send], answer: Any) -> None:
        for number, send in enumerate(sends):
            if answer.error_code:
                self.notes.failed(send, ErrorCode(answer.error_code).name)
            else:
                self.notes.ok(send, offset=answer.base_offset + number)

    async def send(self, place: Place, *values: str) -> None:
        sends = self.begin(place, list(values))
        self.conclude(sends, await self.deliver(place, self.batch(place, list(values))))

    async def end(self, *, commit: bool) -> None:
        """Commit or abort; the broker raises the epoch."""
        end = self.notes.begin(End(transaction=self.transaction, commit=commit))
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        response = await self.ask(request, 5)
        if response.error_code:
            self.notes.failed(end, ErrorCode(response.error_code).name)
            return
        self.notes.ok(end)
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        self.sequences.clear()

    async def commit_position(self, offset: int) -> None:
        """With the transaction."""
        commit = self.notes.begin(
            Commit(
                topic=LOG.topic,
                partition=LOG.partition,
                group=GROUP,
                offset=offset,
                transaction=self.transaction,
            )
        )
        one = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=GROUP,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=LOG.topic, partitions=[one])],
        )
        answer = await self.ask(request, 5, first_partition)
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        self.notes.ok(commit)


class Looker(Client):
    """Asks how far partitions have come."""

    async def look(self, place: Place) -> None:
        began = self.notes.now()
        where = FetchPartition(partition=place.partition, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[FetchTopic(topic=place.topic, partitions=[where])],
        )
        answer = (await self.asker.ask(request, 6)).responses[0].partitions[0]
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        self.notes.note(
            Marks(
                topic=place.topic,
                partition=place.partition,
                high_watermark=answer.high_watermark,
                last_stable=answer.last_stable_offset,
            ),
            began,
        )

    async def position(self, group: str = GROUP) -> None:
        """Where a group is in the log."""
        began = self.notes.now()
        request = OffsetFetchRequest(
            group_id=group,
            topics=[OffsetFetchRequestTopic(name=LOG.topic, partition_indexes=[0])],
            require_stable=True,
        )
        found = await self.ask(request, 7, first_partition)
        self.notes.note(
            Committed(
                topic=LOG.topic,
                partition=LOG.partition,
                group=group,
                offset=found.committed_offset,
                stable=True,
            ),
            began,
        )


class Member(Client):
    """The only member of a classic group."""

    member_id = ""
    generation = -1

    async def join(self, group: str) -> None:
        """Join, once more if need be, and sync."""
        began = self.notes.now()
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        response = await self.ask(request, 5)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = request.member_id = response.member_id
            response = await self.ask(request, 5)
        assert response.error_code == 0, ErrorCode(response.error_code)
        self.generation = response.generation_id
        assignment = SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"")
        synced = await self.ask(
            SyncGroupRequest(
                group_id=group,
                generation_id=self.generation,
                member_id=self.member_id,
                assignments=[assignment],
            ),
            3,
        )
        assert synced.error_code == 0, ErrorCode(synced.error_code)
        self.notes.note(
            Generation(group=group, member=self.member_id, generation=self.generation), began
        )

    async def commit(self, group: str, offset: int, generation: int) -> None:
        commit = self.notes.begin(
            Commit(
                topic=LOG.topic,
                partition=LOG.partition,
                group=group,
                offset=offset,
                member=self.member_id,
                generation=generation,
            )
        )
        one = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=LOG.topic, partitions=[one])],
        )
        answer = await self.ask(request, 7, first_partition)
        if answer.error_code:
            self.notes.failed(commit, ErrorCode(answer.error_code).name)
        else:
            self.notes.ok(commit)


async def play(broker: Broker) -> list[Recorder]:
    """All scenes, with a crash in the middle, and the notes."""
    notebook = Notebook()
    async with asking(broker.port) as asker:
        await find_coordinators(asker)
        await asker.create(LOG.topic)
        await asker.create(LEFT.topic, partitions=2)
        before = Writer(asker, notebook.of("writer"))
        await before.init()
        await out_of_order(before)
        lost = await lost_answer(before)
        await look_around(Looker(asker, notebook.of("looker")))
    broker.kill()
    broker.start()
    async with asking(broker.port) as asker:
        before.asker = asker
        await asked_again_after_the_crash(before, *lost)
        another = Writer(asker, notebook.of("another writer"))
        await another.init()
        await another.send(LOG, "somebody else's")
        await transactions(asker, notebook)
        await zombie(asker, notebook)
        await groups(asker, notebook)
        await look_around(Looker(asker, notebook.of("late looker")))
    read_all(broker, notebook)
    return notebook.recorders


async def find_coordinators(asker: Asker) -> None:
    """Whoever looks for a coordinator makes the broker create the topic that it needs."""
    for kind, key in ((0, GROUP), (1, "id")):
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        await asker.ask(request, 4)


async def out_of_order(writer: Writer) -> None:
    """Two batches are under way, the second one overtakes, and is sent again when refused."""
    await writer.send(LOG, "one")
    first, second = writer.begin(LOG, ["two"]), writer.begin(LOG, ["three"])
    batches = writer.batch(LOG, ["two"]), writer.batch(LOG, ["three"])
    overtaking = await writer.deliver(LOG, batches[1])
    writer.conclude(first, await writer.deliver(LOG, batches[0]))
    if overtaking.error_code:
        overtaking = await writer.deliver(LOG, batches[1])
    writer.conclude(second, overtaking)


async def lost_answer(writer: Writer) -> tuple[list[Send], bytes]:
    """The answer is lost and the batch sent again; of another one before the crash, after it."""
    sends, batch = writer.begin(LOG, ["four", "five"]), writer.batch(LOG, ["four", "five"])
    await writer.deliver(LOG, batch)
    writer.conclude(sends, await writer.deliver(LOG, batch))
    await writer.send(LOG, "six")
    await writer.send(LOG, "seven")
    sends, batch = writer.begin(LOG, ["eight"]), writer.batch(LOG, ["eight"])
    await writer.deliver(LOG, batch)
    await writer.send(LOG, "nine")
    return sends, batch


async def asked_again_after_the_crash(writer: Writer, sends: list[Send], batch: bytes) -> None:
    writer.conclude(sends, await writer.deliver(LOG, batch))
    await writer.send(LOG, "ten")


async def look_around(looker: Looker) -> None:
    for _ in range(3):
        for place in (LOG, LEFT, RIGHT):
            await looker.look(place)


async def transactions(asker: Asker, notebook: Notebook) -> None:
    """One committed, one aborted, each with a position; somebody reads while they are open."""
    writer = Writer(asker, notebook.of("transactional writer"), "id")
    looker = Looker(asker, notebook.of("looker at transactions"))
    await writer.init()
    for number, commit in enumerate((True, False, True)):
        writer.transaction = f"transaction {number}"
        await writer.send(LEFT, f"left {number}")
        await writer.send(RIGHT, f"right {number}")
        await writer.commit_position(number + 1)
        await looker.look(LEFT)
        if not commit:
            peek(asker, notebook)
        await writer.end(commit=commit)
        await looker.look(LEFT)
        await looker.position()


def peek(asker: Asker, notebook: Notebook) -> None:
    """Somebody reads committed transactions, as far as that goes, while one is open."""
    host, port = asker._writer.get_extra_info("peername")
    read_to_end(
        {"bootstrap.servers": f"{host}:{port}"},
        [LEFT],
        notebook.of("peeking reader"),
        committed=True,
        seconds_max=0.5,
    )


async def zombie(asker: Asker, notebook: Notebook) -> None:
    """A writer wakes up when another one has taken its place."""
    old = Writer(asker, notebook.of("old writer"), "fought over")
    await old.init()
    old.transaction = "before the fence"
    await old.send(LEFT, "early")
    new = Writer(asker, notebook.of("new writer"), "fought over")
    await new.init()
    await old.send(LEFT, "late")
    await old.end(commit=True)
    new.transaction = "after the fence"
    await new.send(LEFT, "new")
    await new.end(commit=True)


async def groups(asker: Asker, notebook: Notebook) -> None:
    """A member joins twice, and commits in both generations."""
    member = Member(asker, notebook.of("member"))
    looker = Looker(asker, notebook.of("looker at groups"))
    await member.join("classic")
    await member.commit("classic", 3, member.generation)
    await looker.position("classic")
    before = member.generation
    await member.join("classic")
    await member.commit("classic", 5, member.generation)
    await member.commit("classic", 4, before)
    await looker.position("classic")


def read_all(broker: Broker, notebook: Notebook) -> None:
    """Everything, by readers of both kinds."""
    for committed in (True, False):
        read_to_end(
            {"bootstrap.servers": broker.bootstrap_servers},
            [LOG, LEFT, RIGHT],
            notebook.of(f"reader of {'committed' if committed else 'everything'}"),
            committed=committed,
            seconds_max=READ_SECONDS_MAX,
        )

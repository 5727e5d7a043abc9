"""A leader and a follower in one event loop, with the wire's bytes between them but no wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from penstock.app.settings import settings_for_up
from penstock.model.config.node import NodeConfig
from penstock.model.errors import ErrorCode
from penstock.model.ids import NodeId
from penstock.net.peer import PeerLost
from penstock.platform.clock import Clock, SystemClock
from penstock.platform.workers import ThreadWorkers, Workers
from penstock.protocol.generated.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from penstock.protocol.generated.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.message import Message
from penstock.replica.partition import Appended, Partition
from penstock.server.broker import Broker
from penstock.server.fetch_sessions import FetchPlan, FetchSessions, Wanted
from penstock.server.replication import Replication
from penstock.server.throttles import Throttles
from penstock.storage.flush import GroupCommit
from penstock.storage.log_config import LogConfig
from penstock.storage.store import LogStore
from tests.unit.server.asking import NOON, batch

LEADER, FOLLOWER = NodeId(1), NodeId(2)
VERSION = 18
TOPIC_ID = b"t" * 16


class Host:
    """A node's logs, and the partitions over them."""

    def __init__(self, path: Path, node_id: NodeId, workers: Workers | None = None) -> None:
        self.node_id = node_id
        directories = [f"{path}/one", f"{path}/two"]
        self.store = LogStore(directories, node_id=node_id, cluster_id="cluster")
        self.store.open()
        self.workers = ThreadWorkers() if workers is None else workers
        self.commits = GroupCommit(self.workers, self.store.sync_failed)
        self.partitions: dict[int, Partition] = {}

    def open(self, index: int = 0, **config: Any) -> Partition:
        """A partition of topic t, from what the disk holds of it."""
        found = self.store.get("t", index)
        settings = LogConfig(**config)
        if found is None:
            found = self.store.create("t", index, TOPIC_ID, settings)
        found.config = settings
        partition = Partition(self.node_id, found, found.start, self.commits)
        self.partitions[index] = partition
        return partition

    def write(self, count: int = 1, index: int = 0, **options: Any) -> int:
        """One batch from a producer, to a partition that leads; answers its base offset."""
        data = memoryview(bytearray(batch(count, **options)))
        done = self.partitions[index].append(data, NOON)
        assert isinstance(done, Appended)
        return done.base_offset

    async def close(self) -> None:
        await self.commits.drain()
        self.store.close(clean=False)  # nobody comes back to it: spare the syncs


class Leader(Host):
    """Answers fetches as a leader does, from its logs."""

    def __init__(self, path: Path, workers: Workers | None = None) -> None:
        super().__init__(path, LEADER, workers)
        self.asked: list[Message] = []
        self.purposes: dict[str, None] = {}
        self.sessions = FetchSessions(10, iter(range(1, 1000)).__next__)
        self.reachable = True
        self.wait_seconds_max = 0.02
        """How long a fetch without news stays."""
        self._hung_up = 0
        self.on_fetch: Callable[[FetchRequest], None] = lambda _: None
        """Called with each fetch when it arrives."""
        self.spoil: Callable[[PartitionData], None] = lambda _: None
        """Called with each answer for a partition before it leaves."""

    def lead(self, epoch: int, index: int = 0, **config: Any) -> Partition:
        partition = self.partitions.get(index) or self.open(index, **config)
        partition.lead(epoch, (LEADER,), (LEADER, FOLLOWER))
        return partition

    async def close(self) -> None:
        await super().close()
        self.workers.close()

    # -- as the follower's neighbours ---------------------------------------------------------

    async def ask(self, node_id: int, request: Message, seconds: float, purpose: str) -> Any:
        assert node_id == LEADER
        await asyncio.sleep(0)
        if not self.reachable:
            raise PeerLost("unplugged")
        self.asked.append(request)
        self.purposes[purpose] = None
        if isinstance(request, ListOffsetsRequest):
            return self._offsets(request)
        heard, _ = FetchRequest.read(request.encode(VERSION), VERSION)
        self.on_fetch(heard)
        response = await self._fetch(heard)
        return FetchResponse.read(response.encode(VERSION), VERSION)[0]

    def hang_up(self, node_id: int, purpose: str) -> None:
        """Whoever waits for an answer loses it."""
        self._hung_up += 1

    async def _fetch(self, request: FetchRequest) -> FetchResponse:
        plan = self.sessions.begin(request, VERSION, 0)
        if isinstance(plan, ErrorCode):
            return FetchResponse(error_code=plan)
        loop, hung_up = asyncio.get_running_loop(), self._hung_up
        until = loop.time() + min(self.wait_seconds_max, request.max_wait_ms / 1000)
        while True:
            response, urgent = self._read(plan)
            if urgent or loop.time() >= until:
                break
            await asyncio.sleep(0.002)
            if hung_up != self._hung_up:
                raise PeerLost("hung up")
        return response

    def _read(self, plan: FetchPlan) -> tuple[FetchResponse, bool]:
        """An answer, and whether it says anything that is worth waiting no longer."""
        response = FetchResponse(session_id=plan.session_id)
        urgent = False
        for wanted in plan.wanted:
            answer = self._read_one(wanted)
            self.spoil(answer)
            news = (answer.high_watermark, answer.log_start_offset)
            known = (wanted.high_watermark, wanted.log_start)
            silent = not (answer.records or answer.error_code or answer.diverging_epoch)
            urgent |= not silent or (plan.session is not None and news != known)
            if plan.incremental and news == known and silent:
                continue
            wanted.high_watermark, wanted.log_start = news
            assert isinstance(wanted.key[0], bytes)
            response.responses.append(
                FetchableTopicResponse(topic_id=wanted.key[0], partitions=[answer])
            )
        return response, urgent

    def _read_one(self, wanted: Wanted) -> PartitionData:
        index = wanted.key[1]
        partition = self.partitions[index]
        answer = PartitionData(
            partition_index=index,
            high_watermark=partition.high_watermark,
            log_start_offset=partition.log.start,
            records=b"",
        )
        error = partition.check_epoch(wanted.leader_epoch)
        if not error and wanted.last_fetched_epoch >= 0:
            parted = partition.divergence(wanted.last_fetched_epoch, wanted.fetch_offset)
            if isinstance(parted, tuple):
                answer.diverging_epoch = EpochEndOffset(epoch=parted[0], end_offset=parted[1])
                return answer
            error = parted or error
        held = partition.log
        if not error and not held.start <= wanted.fetch_offset <= held.end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        if error:
            answer.error_code = error
        else:
            answer.records = held.read_bytes(wanted.fetch_offset, wanted.size_max)
        return answer

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=item.partition_index,
                            offset=(
                                self.partitions[item.partition_index].log.end
                                if item.timestamp == -1
                                else self.partitions[item.partition_index].log.start
                            ),
                        )
                        for item in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


class Follower(Host):
    """Copies from a Leader."""

    def __init__(
        self, path: Path, leader: Leader, clock: Clock | None = None, **settings: str
    ) -> None:
        super().__init__(path, FOLLOWER, leader.workers)
        config = NodeConfig.of(
            settings_for_up(
                str(path),
                "127.0.0.1",
                0,
                {"replica.fetch.backoff.ms": "20", **settings},
            )
        )
        self.broker = SimpleNamespace(
            config=config,
            node_id=FOLLOWER,
            epoch=7,
            clock=SystemClock() if clock is None else clock,
            loop=asyncio.get_running_loop(),
            neighbours=leader,
            throttles=Throttles(config),
        )
        self.replication = Replication(cast(Broker, self.broker), self.commits)

    def follow(self, epoch: int, index: int = 0, **config: Any) -> Partition:
        partition = self.partitions.get(index) or self.open(index, **config)
        partition.follow(epoch, LEADER, (LEADER,), (LEADER, FOLLOWER))
        self.replication.follow(partition)
        return partition

    async def close(self) -> None:
        self.replication.close()
        await super().close()


async def until(condition: Callable[[], object], seconds_max: float = 20) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(seconds_max):
        while not condition():
            await asyncio.sleep(0.002)


def contents(partition: Partition) -> list[bytes]:
    """The bytes of every batch that a partition holds."""
    return [bytes(data) for _, data in partition.log.batches(partition.log.start)]

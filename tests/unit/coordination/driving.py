"""A runtime to drive: a machine that keeps numbers under names, on a partition with a real log."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any

from penstock.coordination.effects import Effects, Moment, Ticket
from penstock.coordination.runtime import Runtime
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis, NodeId, Uuid
from penstock.platform.workers import InlineWorkers
from penstock.protocol.generated.group_records import GroupMetadataKey, GroupMetadataValue
from penstock.protocol.generated.heartbeat import HeartbeatResponse
from penstock.protocol.message import Message
from penstock.protocol.record_frames import GROUP
from penstock.replica.partition import Partition
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.store import LogStore

NODE = NodeId(1)
TOPIC = "numbers"
TOPIC_ID = b"n" * 16


class Syncs:
    """A disk whose syncs end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []

    def wait_synced(self, log: Log, offset: int) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(done)
        return done

    async def end(self) -> None:
        for done in self.waiting:
            done.set_result(None)
        self.waiting.clear()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


class StillClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.time = 1_000_000

    def now(self) -> Millis:
        return Millis(self.time)

    def monotonic(self) -> Millis:
        return Millis(self.time)


class Numbers:
    """The machine: what was put last under each name."""

    def __init__(self) -> None:
        self.by_name: dict[str, int] = {}
        self.fired: list[Hashable] = []
        self.ended: list[tuple[int, int, bool]] = []
        self.images: list[Any] = []
        self.loaded = 0
        self.replayed: list[int] = []
        self.unbearable: int | None = None
        """A number that this machine cannot replay."""
        self.on_time: Any = None
        """What it does when a timer comes."""

    def replay(self, offset: int, key: Message, value: Message | None, producer_id: int) -> None:
        assert isinstance(key, GroupMetadataKey) and producer_id == -1
        self.replayed.append(offset)
        if value is None:
            del self.by_name[key.group]
            return
        assert isinstance(value, GroupMetadataValue)
        if value.generation == self.unbearable:
            raise ValueError("unbearable")
        self.by_name[key.group] = value.generation

    def replay_end_txn(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        self.ended.append((producer_id, producer_epoch, is_commit))

    def on_loaded(self, at: Moment, out: Effects) -> None:
        self.loaded += 1

    def on_timer(self, key: Hashable, at: Moment, out: Effects) -> None:
        self.fired.append(key)
        if self.on_time is not None:
            self.on_time(at, out)

    def on_image(self, image: Any, delta: Any, at: Moment, out: Effects) -> None:
        self.images.append(image)


def put(name: str, number: int, filler: int = 0) -> Any:
    """A step that puts a number; with `filler` bytes, in a record that may be too large."""

    def step(shard: Numbers, at: Moment, out: Effects, ticket: Ticket) -> None:
        value = GroupMetadataValue(generation=number, protocol_type="x" * min(filler, 32_767))
        out.record(GroupMetadataKey(group=name), value, 3)
        out.reply(ticket, HeartbeatResponse(error_code=0))

    return step


def look(seen: list[dict[str, int]]) -> Any:
    """A step that only looks."""

    def step(shard: Numbers, at: Moment, out: Effects, ticket: Ticket) -> None:
        seen.append(dict(shard.by_name))
        out.reply(ticket, HeartbeatResponse(error_code=0))

    return step


def refuse(error: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)


class Drive:
    """A runtime with one partition, led at once."""

    def __init__(self, store: LogStore, **config: Any) -> None:
        self.syncs = Syncs()
        self.log = store.create(TOPIC, 0, TOPIC_ID, LogConfig(**config))
        self.partition = Partition(NODE, self.log, self.log.end, self.syncs)
        self.partition.lead(0, (NODE,), (NODE,))
        self.shards: list[Numbers] = []
        self.errands: list[Any] = []
        self.clock = StillClock()
        self.runtime: Runtime[Numbers] = Runtime(
            TOPIC,
            GROUP,
            self._make,
            self.clock,
            InlineWorkers(),
            on_errand=lambda _, what: self.errands.append(what),
        )
        self.runtime.partitions = 1

    def another(self, store: LogStore, index: int) -> Partition:
        """One more partition of the topic, to lead."""
        log = store.create(TOPIC, index, TOPIC_ID, LogConfig())
        partition = Partition(NODE, log, log.end, self.syncs)
        partition.lead(0, (NODE,), (NODE,))
        return partition

    def _make(self, index: int) -> Numbers:
        self.shards.append(Numbers())
        return self.shards[-1]

    @property
    def shard(self) -> Numbers:
        return self.shards[-1]

    def lead(self) -> None:
        self.runtime.lead(self.partition)

    async def loaded(self) -> None:
        async with asyncio.timeout(20):
            while self.runtime.loading:
                await asyncio.sleep(0)

    def call(self, step: Any, name: str = "a") -> Any:
        return self.runtime.call(name, step, refuse)

    def call_shard(self, index: int, step: Any) -> Any:
        return self.runtime.call_shard(index, step, refuse)


class Counting:
    """Chance that counts."""

    def __init__(self) -> None:
        self._count = 0

    def between(self, low: int, high: int) -> int:
        return low

    def uuid(self) -> Uuid:
        self._count += 1
        return Uuid(self._count.to_bytes(16, "big"))

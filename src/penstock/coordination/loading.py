"""Reading a shard's log into its machine, in slices between which the node serves others."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from penstock.protocol.primitives import ProtocolError
from penstock.protocol.record_frames import CoordinatorFrames, UnknownRecordType
from penstock.records.batch import CONTROL, HEAD_SIZE, TRANSACTIONAL, BatchHead, read_head
from penstock.records.control import read_marker
from penstock.records.record import iterate

if TYPE_CHECKING:
    from penstock.coordination.effects import Shard
    from penstock.platform.workers import Workers
    from penstock.storage.log import Log

log = logging.getLogger("penstock.coordination")

SLICE_SECONDS = 0.005
"""How long loading holds the event loop before others get their turn."""

FREEZE_BYTES = 1024 * 1024
"""Reads from which on the garbage collector is spared what they became: it is there to stay, and to
walk over a hundred thousand groups takes half a second in which nobody is served."""

RECORDS_PER_LOOK = 64
"""Records between two looks at the clock."""


class Abandoned(Exception):
    """The shard is no longer wanted."""


class Quick(Protocol):
    """A shard's short cut, if its `quick_replay()` gives one: replays some records as bytes."""

    def replay(self, key: memoryview, value: memoryview | None) -> bool:
        """Whether the record, which belongs to no transaction, could be replayed like that."""

    def forget(self) -> None:
        """Another record was replayed the ordinary way: what was remembered may be out of date."""


class ShardLoader:
    """Replays a log from its start to the end that it has now."""

    def __init__(
        self,
        source: Log,
        shard: Shard,
        frames: CoordinatorFrames,
        workers: Workers,
        read_bytes: int,
        wanted: Callable[[], bool],
    ) -> None:
        self._log = source
        self._shard = shard
        self._frames = frames
        self._workers = workers
        self._read_bytes = read_bytes
        self._wanted = wanted
        self._slice_end = 0.0
        self._quick: Quick | None = shard.quick_replay() if hasattr(shard, "quick_replay") else None
        self.records = 0

    async def load(self) -> None:
        """Raises OSError if the disk does not give it, Abandoned if nobody wants it any more."""
        loop = asyncio.get_running_loop()
        self._slice_end = loop.time() + SLICE_SECONDS
        source, end = self._log, self._log.end
        offset = source.start
        while offset < end:
            found = source.read(offset, self._read_bytes, end)
            if found is None:
                break
            data = found.read_cached()
            if data is None:
                data = await self._workers.submit(found.read_waiting)
                self._check()
            offset = await self._replay(memoryview(data), offset)
            if len(data) >= FREEZE_BYTES:
                gc.freeze()

    async def _replay(self, data: memoryview, offset: int) -> int:
        """Replay whole batches from `offset` on; answers where the next ones begin."""
        at = batches = 0
        while at + HEAD_SIZE <= len(data):
            head = read_head(data, at)
            after = at + head.length + 12
            if after > len(data):
                break
            if head.base_offset + head.last_offset_delta >= offset:
                await self._replay_batch(data[at:after], head)
            offset = max(offset, head.base_offset + head.last_offset_delta + 1)
            at = after
            batches += 1
            if batches % RECORDS_PER_LOOK == 0:
                await self._pause_if_due()  # a row of markers has no records between
        if at == 0:
            raise OSError(f"{self._log!r} holds no whole batch at offset {offset}")
        return offset

    async def _replay_batch(self, batch: memoryview, head: BatchHead) -> None:
        if head.attributes & CONTROL:
            marker = read_marker(batch, 0, head)
            if marker is not None:
                self._shard.replay_end_txn(head.producer_id, head.producer_epoch, marker.is_commit)
            return
        producer_id = head.producer_id if head.attributes & TRANSACTIONAL else -1
        for record in iterate(batch, 0, head=head):
            if record.key is None:
                log.warning("%r: the record at %d has no key: skipped", self._log, record.offset)
                continue
            quick = self._quick
            if quick is None or producer_id >= 0 or not quick.replay(record.key, record.value):
                self._replay_record(record.offset, record.key, record.value, producer_id)
                if quick is not None:
                    quick.forget()
            self.records += 1
            if self.records % RECORDS_PER_LOOK == 0:
                await self._pause_if_due()

    def _replay_record(
        self, offset: int, key: memoryview, value: memoryview | None, producer_id: int
    ) -> None:
        frames = self._frames
        try:
            name = frames.read_key(key)
            content = None if value is None else frames.read_value(name.API_KEY, value)[0]
        except UnknownRecordType as problem:
            # A newer version wrote it, before the node went back to this one.
            log.warning("%r: the record at %d is skipped: %s", self._log, offset, problem)
            return
        except ProtocolError as problem:
            raise OSError(f"{self._log!r}: the record at {offset} is damaged: {problem}") from None
        self._shard.replay(offset, name, content, producer_id)

    async def _pause_if_due(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() >= self._slice_end:
            await asyncio.sleep(0)
            self._check()
            self._slice_end = loop.time() + SLICE_SECONDS

    def _check(self) -> None:
        if not self._wanted():
            raise Abandoned

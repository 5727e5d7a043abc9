"""Readers of one partition each: in order, from the leader, as far as it lets them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from penstock.model.errors import ErrorCode
from penstock.net.peer import PeerLost
from penstock.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from penstock.records.batch import CONTROL, HEAD_SIZE, TRANSACTIONAL, BatchHead, read_head
from penstock.records.control import read_marker
from penstock.records.record import iterate
from penstock.testing.history.operations import Place, Poll
from penstock.testing.history.recorder import Recorder
from penstock.testing.sim.clients.talk import Talk
from penstock.testing.sim.clients.violation import Violation

WAIT_MS = 400
BYTES_MAX = 1 << 20


class Reader:
    """Reads a partition from its beginning on, everything or committed transactions only."""

    def __init__(self, talk: Talk, place: Place, recorder: Recorder, *, committed: bool) -> None:
        self.place = place
        self.position = 0
        self.stopping = False
        self._talk = talk
        self._recorder = recorder
        self._committed = committed

    async def run(self) -> None:
        """Read on and on."""
        while not self.stopping:
            if await self._poll(WAIT_MS) is None:
                await self._talk.pause()

    async def read_to_end(self) -> None:
        """Read until the leader has no more for this reader."""
        while True:
            found = await self._poll(0)
            if found is None:
                await self._talk.pause()
            elif self.position >= found:
                break
        self._recorder.note(self._note(self.position, [], at_end=True))

    async def _poll(self, wait_ms: int) -> int | None:
        """Fetch once; answers the end of what may be read, None if nobody would tell."""
        began = self._recorder.now()
        address, led = await self._talk.leader_of(self.place)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=BYTES_MAX,
            isolation_level=int(self._committed),
            topics=[
                FetchTopic(
                    topic=self.place.topic,
                    topic_id=led.topic_id,
                    partitions=[
                        FetchPartition(
                            partition=self.place.partition,
                            current_leader_epoch=led.epoch,
                            fetch_offset=self.position,
                            partition_max_bytes=BYTES_MAX,
                        )
                    ],
                )
            ],
        )
        try:
            response = await self._talk.ask(address, request)
        except PeerLost:
            self._talk.doubt(self.place)
            return None
        found: PartitionData = response.responses[0].partitions[0]
        error = ErrorCode(found.error_code or response.error_code)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise Violation(
                f"{self._recorder.client} had read {self.place} up to {self.position}, and node "
                f"{led.leader}, which leads epoch {led.epoch}, has no such offset"
            )
        if error:
            self._talk.doubt(self.place)
            return None
        self._take(found, began)
        await asyncio.sleep(0)
        return found.last_stable_offset if self._committed else found.high_watermark

    def _take(self, found: PartitionData, began: int) -> None:
        start, records = self.position, []
        aborted = _Aborted(found)
        for head, batch in _batches(found.records):
            if head.attributes & CONTROL:
                aborted.end(head, batch)
            elif not self._committed or not aborted.has(head):
                records += [
                    (record.offset, bytes(record.value or b"").decode())
                    for record in iterate(batch, head=head)
                    if record.offset >= self.position
                ]
            self.position = max(self.position, head.base_offset + head.last_offset_delta + 1)
        if self.position > start:
            self._recorder.note(self._note(start, records), began)

    def _note(self, start: int, records: list[tuple[int, str]], *, at_end: bool = False) -> Poll:
        return Poll(
            topic=self.place.topic,
            partition=self.place.partition,
            start=start,
            end=self.position,
            records=records,
            committed=self._committed,
            at_end=at_end,
        )


def _batches(records: Any) -> Iterator[tuple[BatchHead, bytes]]:
    data = bytes(records or b"")
    at = 0
    while len(data) - at >= HEAD_SIZE:
        head = read_head(data, at)
        end = at + 12 + head.length
        if end > len(data):
            return  # the last batch may be cut where a limit fell
        yield head, data[at:end]
        at = end


class _Aborted:
    """Which of the batches of one answer belong to transactions that were aborted."""

    def __init__(self, found: PartitionData) -> None:
        told = found.aborted_transactions or []
        self._coming = sorted((each.first_offset, each.producer_id) for each in told)
        self._open: dict[int, None] = {}

    def has(self, head: BatchHead) -> bool:
        self._come_to(head)
        return bool(head.attributes & TRANSACTIONAL) and head.producer_id in self._open

    def end(self, head: BatchHead, batch: bytes) -> None:
        """A marker: what its producer writes behind it belongs to another transaction."""
        self._come_to(head)
        marker = read_marker(batch, 0, head)
        if marker is not None and not marker.is_commit:
            self._open.pop(head.producer_id, None)

    def _come_to(self, head: BatchHead) -> None:
        while self._coming and self._coming[0][0] <= head.base_offset:
            self._open[self._coming.pop(0)[1]] = None

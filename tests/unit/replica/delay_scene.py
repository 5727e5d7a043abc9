"""A partition of a topic with delayed records, and what stands in its log."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.model.delays import DELAY_MS
from penstock.model.ids import NodeId
from penstock.records.batch import BatchHead
from penstock.records.builder import BatchBuilder
from penstock.records.record import Record, iterate
from penstock.replica.outcomes import Appended, Refused
from penstock.replica.partition import Partition
from penstock.replica.transactions import Guard, Unverified
from penstock.storage.delay_batches import Row
from penstock.storage.delay_reading import Parked, bodies, locate, read_waiting
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.store import LogStore

NODE = NodeId(1)
NOW = 1_700_000_000_000


class NoSyncs:
    def wait_synced(self, log: Log, offset: int) -> asyncio.Future[None]:
        raise AssertionError("nothing here is to be synced before it is answered")


class Scene:
    """One partition that this node leads, and a clock."""

    def __init__(self, store: LogStore, **config: Any) -> None:
        settings = LogConfig(**{"delay_enable": True, **config})
        self.partition = Partition(NODE, store.create("t", 0, b"t" * 16, settings), 0, NoSyncs())
        self.partition.lead(0, (NODE,), (NODE,))
        self.now = NOW

    @property
    def log(self) -> Log:
        return self.partition.log

    @property
    def waiting(self) -> list[Row]:
        delays = self.log.delays
        return [] if delays is None else list(delays.waiting.rows_from(-1))

    def send(
        self, *records: tuple[bytes, int | bytes | None], **options: Any
    ) -> Appended | Refused:
        """Produce values with their delays."""
        result = self.partition.append(memoryview(bytearray(batch(*records, **options))), self.now)
        assert not isinstance(result, Unverified)
        return result

    def send_in_txn(self, *records: tuple[bytes, int | None], **producer: int) -> Appended:
        """Produce within a transaction that its coordinator knows of."""
        data = memoryview(bytearray(batch(*records, transactional=True, **producer)))
        result = self.partition.append(data, self.now)
        guard: Guard | None = result.guard if isinstance(result, Unverified) else None
        if guard is not None:
            result = self.partition.append(data, self.now, guard)
        assert isinstance(result, Appended), result
        return result

    def read(self, rows: list[Row], size_max: int = 1 << 20) -> list[Parked]:
        return bodies(locate(self.log, rows), rows, size_max, read_waiting)

    def batches(self) -> list[tuple[BatchHead, list[Record]]]:
        """Batches that clients do not skip."""
        return [
            (head, list(iterate(bytes(data), head=head)))
            for head, data in self.log.batches(self.log.start)
            if not head.is_control
        ]

    def readable(self) -> list[tuple[int, bytes]]:
        """What clients read: offsets and values."""
        return [
            (record.offset, bytes(record.value or b""))
            for _, records in self.batches()
            for record in records
        ]


def batch(*records: tuple[bytes, int | bytes | None], **options: Any) -> bytes:
    """Values and their delays, as a client sends them."""
    builder = BatchBuilder(**options)
    for value, delay in records:
        headers: list[tuple[str, bytes | None]] = [("mine", b"1")]
        if delay is not None:
            text = delay if isinstance(delay, bytes) else str(delay).encode()
            headers.append((DELAY_MS, text))
        builder.append(b"k", value, NOW, headers)
    return builder.build()

"""Whatever happens to a log with delayed records, and wherever the power fails: what the index
says is what the log says, and nothing is delivered twice."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.model.ids import NodeId, TopicPartition
from penstock.records.batch import BatchHead
from penstock.records.builder import BatchBuilder
from penstock.records.control import read_marker
from penstock.records.record import iterate
from penstock.replica.delay_delivery import cancel, deliver, move
from penstock.replica.outcomes import Appended, Refused
from penstock.replica.partition import Partition
from penstock.replica.transactions import Unverified
from penstock.storage.delay_batches import (
    CANCELLED,
    DELIVERED,
    MOVED,
    PARKED,
    Row,
    kind_of,
    read_notice,
    read_rows,
)
from penstock.storage.delay_reading import Parked, bodies, locate, read_waiting
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.retention import expired_to, retain
from penstock.storage.store import LogStore
from tests.property.crash_disk import CrashDisk
from tests.unit.storage.logs import NOW, TOPIC_ID

KEY = TopicPartition("orders", 0)
NODE = NodeId(1)
MEMORY = Path("/dev/shm")
CONFIG = LogConfig(
    segment_bytes=900,
    index_interval_bytes=150,
    file_delete_delay_ms=0,
    delay_enable=True,
    retention_ms=5_000,
    message_max_bytes=420,  # so that parking takes several batches now and then
)

Batches = list[tuple[BatchHead, memoryview]]


class NoSyncs:
    def wait_synced(self, log: Log, offset: int) -> asyncio.Future[None]:
        raise AssertionError("nothing here is to be synced before it is answered")


class Said:
    """What the batches of a log say, read from its start on without any index."""

    def __init__(self, log: Log) -> None:
        self.waiting: dict[tuple[int, int], int] = {}
        self.undecided: dict[int, set[tuple[int, int, int]]] = {}
        batches = [each for each in log.batches(log.start) if each[0].base_offset >= log.start]
        by_offset = {head.base_offset: head for head, _ in batches}
        claims: dict[int, list[tuple[int, int, list[Row]]]] = {}
        for head, data in batches:
            for kind, place, rows in claims.pop(head.base_offset, []):
                self._settle(kind, place, rows, head)
            if head.is_control and head.producer_id >= 0:
                self._end(head, data)
            elif head.is_control and kind_of(data) is not None:
                notice = read_notice(data)
                rows = read_rows(data, notice)
                if notice.target < 0:
                    self._apply(notice.kind, head.base_offset, rows)
                    continue
                meant = by_offset.get(notice.target)
                if meant is not None and meant.crc == notice.crc:
                    claim = (notice.kind, head.base_offset, rows)
                    claims.setdefault(notice.target, []).append(claim)

    def _settle(self, kind: int, place: int, rows: list[Row], head: BatchHead) -> None:
        if kind == PARKED and head.is_transactional:
            found = {(row.due, row.id, place) for row in rows}
            self.undecided.setdefault(head.producer_id, set()).update(found)
        else:
            self._apply(kind, place, rows)

    def _apply(self, kind: int, place: int, rows: list[Row]) -> None:
        for row in rows:
            if kind in (PARKED, MOVED):
                self.waiting[row.due, row.id] = place
            else:
                assert kind in (DELIVERED, CANCELLED)
                self.waiting.pop((row.due, row.id), None)

    def _end(self, head: BatchHead, data: memoryview) -> None:
        marker = read_marker(data, 0, head)
        for due, id_, place in self.undecided.pop(head.producer_id, ()):
            if marker is not None and marker.is_commit:
                self.waiting[due, id_] = place


class DelayedLog(RuleBasedStateMachine):
    """One partition with delayed records, and its disk."""

    def __init__(self) -> None:
        super().__init__()
        where = MEMORY if MEMORY.is_dir() else None
        self.home = Path(tempfile.mkdtemp(prefix="penstock-delays-", dir=where))
        self.generation = 0
        self.now = NOW
        self.tokens = 0
        self.producers = 0
        self.open_txns: list[int] = []
        self.disk: CrashDisk
        self.store: LogStore
        self.partition: Partition

    def teardown(self) -> None:
        self.store.close(clean=False)
        self.disk.forget()
        shutil.rmtree(self.home)

    @property
    def log(self) -> Log:
        return self.partition.log

    def _lead(self) -> None:
        log = self.store.get(*KEY) or self.store.create(*KEY, TOPIC_ID, CONFIG)
        self.partition = Partition(NODE, log, log.end, NoSyncs())
        epoch = max(log.epochs.latest, 0) + 1
        self.partition.lead(epoch, (NODE,), (NODE,))

    @initialize()
    def begin(self) -> None:
        root = self.home / str(self.generation)
        root.mkdir(exist_ok=True)
        self.disk = CrashDisk(root)
        self._open()

    def _open(self) -> None:
        self.store = LogStore([self.disk.root], node_id=1, cluster_id="c", disk=self.disk)
        self.store.open(lambda _: CONFIG)
        self._lead()

    # -- what producers do --------------------------------------------------------------------

    def _batch(self, delays: list[int], **options: Any) -> memoryview:
        builder = BatchBuilder(**options)
        for delay in delays:
            self.tokens += 1
            headers = [("penstock-delay-ms", str(delay).encode())] if delay else []
            builder.append(None, b"token-%d" % self.tokens, self.now, headers)
        return memoryview(bytearray(builder.build()))

    @rule(delays=st.lists(st.sampled_from([0, 1, 50, 50, 400]), min_size=1, max_size=8))
    def produce(self, delays: list[int]) -> None:
        assert isinstance(self.partition.append(self._batch(delays), self.now), Appended)

    @rule(delays=st.lists(st.sampled_from([0, 1, 50, 400]), min_size=1, max_size=3))
    def begin_txn(self, delays: list[int]) -> None:
        self.producers += 1
        batch = self._batch(
            delays,
            producer_id=self.producers,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        asked = self.partition.append(batch, self.now)
        assert isinstance(asked, Unverified)
        assert isinstance(self.partition.append(batch, self.now, asked.guard), Appended)
        self.open_txns.append(self.producers)

    @rule(which=st.integers(0, 9), is_commit=st.booleans())
    @precondition(lambda self: self.open_txns)
    def end_txn(self, which: int, is_commit: bool) -> None:
        producer_id = self.open_txns.pop(which % len(self.open_txns))
        result = self.partition.append_marker(producer_id, 0, 0, is_commit, self.now)
        assert isinstance(result, Appended)

    # -- what the leader does -----------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 40, 60, 500]), count=st.integers(1, 20), size=st.integers(1, 500))
    def deliver(self, ms: int, count: int, size: int) -> None:
        self.now += ms
        delays = self.log.delays
        if delays is None:
            return
        rows = [row for row in delays.waiting.rows_from(-1) if row.due <= self.now][:count]
        assert not isinstance(deliver(self.partition, self._read(rows, size), self.now), Refused)

    def _read(self, rows: list[Row], size_max: int = 1 << 20) -> list[Parked]:
        return bodies(locate(self.log, rows), rows, size_max, read_waiting)

    @rule(which=st.integers(0, 99))
    @precondition(lambda self: self.log.delays)
    def cancel(self, which: int) -> None:
        assert self.log.delays is not None
        rows = list(self.log.delays.waiting.rows_from(-1))
        if rows:
            row = rows[which % len(rows)]
            assert isinstance(cancel(self.partition, [row], self.now), Appended)

    @rule(ms=st.sampled_from([0, 3_000, 6_000]))
    def retain(self, ms: int) -> None:
        self.now += ms
        log = self.log
        end = expired_to(log, self.now)
        before = Said(log).waiting.keys()
        if log.delays is not None and end > log.start:
            rows = log.delays.waiting.below(end, 1000)
            if rows and end > log.active.base:
                log.roll(self.now)
            for row in rows:
                assert not isinstance(move(self.partition, self._read([row]), self.now), Refused)
        retain(log, self.now)
        assert Said(log).waiting.keys() == before

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        heads = [head for head, _ in self.log.batches(self.log.start)]
        if heads:
            offset = heads[int(share * (len(heads) - 1))].base_offset
            self.partition.delete_to(max(offset, self.log.start))

    # -- what disks do ------------------------------------------------------------------------

    @rule()
    def sync(self) -> None:
        self.log.sync()

    @rule()
    def roll(self) -> None:
        if self.log.active.size:
            self.log.roll(self.now)

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint_pass()

    @rule(back=st.integers(1, 9))
    def truncate(self, back: int) -> None:
        heads = [head for head, _ in self.log.batches(self.log.start)]
        cut = [head.base_offset for head in heads[-back:]][:1]
        if cut and cut[0] >= self.log.start:
            self.log.truncate_to(cut[0], self.now)
            self._lead()

    @rule()
    def stop_and_start(self) -> None:
        self.store.close(clean=True)
        self._open()

    @rule(seed=st.integers(0, 2**32))
    def power_cut(self, seed: int) -> None:
        old = self.home / str(self.generation)
        self.generation += 1
        self.disk.crash(self.home / str(self.generation), random.Random(seed))
        self.store.close(clean=False)
        self.disk.forget()
        shutil.rmtree(old)
        self.begin()

    # -- what must hold -----------------------------------------------------------------------

    @invariant()
    def the_index_says_what_the_log_says(self) -> None:
        if not hasattr(self, "partition"):
            return
        said, delays = Said(self.log), self.log.delays
        rows = [] if delays is None else list(delays.waiting.rows_from(-1))
        assert {(row.due, row.id): row.place for row in rows} == said.waiting
        undecided = {} if delays is None else delays.undecided
        assert {
            who: {(row.due, row.id, row.place) for row in rows} for who, rows in undecided.items()
        } == said.undecided

    @invariant()
    def what_waits_is_there_and_what_is_read_is_read_once(self) -> None:
        if not hasattr(self, "partition"):
            return
        log = self.log
        read = Counter[bytes]()
        for head, data in log.batches(log.start):
            if not head.is_control:
                read.update(bytes(record.value or b"") for record in iterate(data, head=head))
        assert not [token for token, times in read.items() if times > 1]
        rows = [] if log.delays is None else list(log.delays.waiting.rows_from(-1))
        for parked in self._read(rows):
            assert parked.body is not None, f"{parked.row} is lost"
            token = parked.body[2 : 2 + parked.body[1] // 2]
            assert token.startswith(b"token-")
            assert not read[token], f"{token!r} was delivered, and waits"


DelayedLog.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestDelayedLog = DelayedLog.TestCase

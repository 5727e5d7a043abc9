"""A shard's partition on several nodes, whose followers fetch when the test says so."""

from __future__ import annotations

from typing import Any

from penstock.coordination.runtime import Runtime
from penstock.model.errors import ErrorCode
from penstock.model.ids import NodeId
from penstock.platform.workers import InlineWorkers
from penstock.protocol.record_frames import GROUP
from penstock.replica import leading
from penstock.replica.partition import Partition
from penstock.storage.log_config import LogConfig
from penstock.storage.store import LogStore
from tests.unit.coordination.driving import (
    TOPIC,
    TOPIC_ID,
    Numbers,
    StillClock,
    Syncs,
    refuse,
)


class Host:
    """A node: its replica of the partition, and its runtime."""

    def __init__(self, node_id: int, store: LogStore, clock: StillClock) -> None:
        self.node_id = node_id
        log = store.create(TOPIC, 0, TOPIC_ID, LogConfig(min_insync_replicas=2))
        self.partition = Partition(NodeId(node_id), log, 0, Syncs())
        self.shards: list[Numbers] = []
        self.errands: list[Any] = []
        self.runtime: Runtime[Numbers] = Runtime(
            TOPIC,
            GROUP,
            self._make,
            clock,
            InlineWorkers(),
            on_errand=lambda _, what: self.errands.append(what),
            commit_ms_max=50,
        )
        self.runtime.partitions = 1

    def _make(self, index: int) -> Numbers:
        self.shards.append(Numbers())
        return self.shards[-1]

    def call(self, step: Any) -> Any:
        return self.runtime.call("a", step, refuse)


class Replicas:
    """All nodes that hold the partition, and what the controller says of it."""

    def __init__(self, stores: list[LogStore]) -> None:
        self.clock = StillClock()
        self.hosts = [Host(number + 1, store, self.clock) for number, store in enumerate(stores)]
        self.ids = tuple(host.node_id for host in self.hosts)
        self.isr = self.ids
        self.epoch = -1
        self.partition_epoch = 0
        self.leader = self.hosts[0]

    def elect(self, leader: Host, *, told: list[Host] | None = None) -> None:
        """Have another leader, or the same one anew. Those who are not told believe in the old."""
        self.leader = leader
        self.epoch += 1
        self.tell(self.hosts if told is None else told)

    def shrink(self, *left: Host) -> None:
        """The in-sync set becomes smaller."""
        self.isr = tuple(host.node_id for host in left)
        self.tell([self.leader])

    def tell(self, hosts: list[Host]) -> None:
        self.partition_epoch += 1
        for host in hosts:
            partition = host.partition
            if host is self.leader:
                partition.lead(
                    self.epoch,
                    self.isr,
                    self.ids,
                    partition_epoch=self.partition_epoch,
                    now=self.clock.time,
                )
                host.runtime.lead(partition)
            else:
                host.runtime.lose(0)
                partition.follow(self.epoch, self.leader.node_id, self.isr, self.ids)

    def fetch(self, host: Host) -> None:
        """A follower gets what it lacks, after it has dropped what its leader does not have."""
        mine, theirs = host.partition, self.leader.partition
        if host is self.leader:
            return
        while mine.log.end and (last := mine.log.epochs.latest) >= 0:
            parted = theirs.divergence(last, mine.log.end)
            if parted is None:
                break
            assert not isinstance(parted, ErrorCode), parted
            own = mine.log.epochs.end_offset_for(parted[0], mine.log.end)[1]
            mine.truncate_to(min(parted[1], own), self.clock.time)
        found = theirs.log.read(mine.log.end, 1 << 20, theirs.log.end)
        if found is not None:
            mine.append_fetched(found.read_waiting(), self.clock.time)
        error = leading.fetched(theirs, host.node_id, 1, mine.log.end, 0, self.clock.time)
        assert not isinstance(error, ErrorCode), error
        mine.take_marks(theirs.high_watermark, 0)

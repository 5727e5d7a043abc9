"""What must hold in a cluster at every moment, looked at from outside every few milliseconds.

- One leader per epoch: of the metadata log, and of each partition.
- What is committed to the metadata log never changes, and is the same on every node.
- What is committed to a partition never changes, and is the same on every replica; whoever leads
  has all of it.
- Epochs of partitions rise, who is in sync is a replica, and no high watermark is behind the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.testing.sim.clients.violation import Violation

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.topics import PartitionImage
    from penstock.records.batch import BatchHead
    from penstock.replica.partition import Partition
    from penstock.storage.log import Log
    from penstock.testing.sim.node import Machine

Key = tuple[bytes, int]
"""Topic id and index of a partition."""


class Batch(NamedTuple):
    """What is compared of a batch: the checksum covers the rest."""

    end: int
    epoch: int
    crc: int


class Truth:
    """One log as it was first seen to be committed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.end = 0
        self._batches: dict[int, Batch] = {}

    def compare(self, log: Log, start: int, end: int, who: str) -> int:
        """Everything that `who` holds as committed in [start, end) is what others hold."""
        at = start
        for head, _ in log.batches(start, end):
            self._note(head, who)
            at = head.base_offset + head.last_offset_delta + 1
        self.end = max(self.end, min(at, end))
        return at

    def _note(self, head: BatchHead, who: str) -> None:
        base = head.base_offset
        found = Batch(base + head.last_offset_delta + 1, head.leader_epoch, head.crc)
        before = self._batches.setdefault(base, found)
        if before != found:
            raise Violation(
                f"{self.name}: {who} has {found} at {base}, where {before} is committed"
            )


class _Seen:
    """What was compared already of a log in one life of its node."""

    __slots__ = ("cuts", "end", "log")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.cuts = log.truncations
        self.end = log.start


class Promises:
    """Remembers what was so, and says when it no longer is."""

    def __init__(self) -> None:
        self._quorum_leaders: dict[int, int] = {}
        self._leaders: dict[tuple[Key, int], int] = {}
        self._truths: dict[Key | None, Truth] = {None: Truth("the metadata")}
        self._seen: dict[tuple[int, Key | None], _Seen] = {}
        self._states: dict[Key, PartitionImage] = {}
        self._image_offset = -1
        self._complete: dict[tuple[Key, int], None] = {}

    def look(self, machine: Machine) -> None:
        """Compare one node, which runs, with all that was seen before."""
        node = machine.node
        if node is None or not machine.started:
            return
        raft = node.controller.raft
        if raft.leading:
            self._note_quorum_leader(raft.epoch, machine.node_id)
        self._compare(machine, None, raft.journal.log, raft.high_watermark)
        if not node.config.is_broker:
            return
        self._follow(node.broker.image)
        for key, partition in node.broker.hosted_by_id.items():
            self._look_at(machine, key, partition)

    def truth_of(self, key: Key) -> Truth:
        return self._truths.setdefault(key, Truth(f"partition {key[0].hex()[:6]}-{key[1]}"))

    # -- leaders ------------------------------------------------------------------------------

    def _note_quorum_leader(self, epoch: int, node_id: int) -> None:
        before = self._quorum_leaders.setdefault(epoch, node_id)
        if before != node_id:
            raise Violation(f"nodes {before} and {node_id} lead the metadata in epoch {epoch}")

    def _look_at(self, machine: Machine, key: Key, partition: Partition) -> None:
        if partition.offline:
            return
        log = partition.log
        if partition.high_watermark > log.end:
            raise Violation(
                f"node {machine.node_id}, {partition}: the high watermark "
                f"{partition.high_watermark} is behind the end {log.end}"
            )
        if partition.leading:
            self._note_leader(machine.node_id, key, partition)
        self._compare(machine, key, log, partition.high_watermark)

    def _note_leader(self, node_id: int, key: Key, partition: Partition) -> None:
        mark = key, partition.leader_epoch
        before = self._leaders.setdefault(mark, node_id)
        if before != node_id:
            raise Violation(
                f"nodes {before} and {node_id} lead {partition} in epoch {partition.leader_epoch}"
            )
        if mark in self._complete:
            return
        self._complete[mark] = None
        truth = self.truth_of(key)
        newest = self._states.get(key)
        if newest is not None and newest.leader_epoch > partition.leader_epoch:
            return  # it has led in the past, and was not looked at until now
        if partition.log.end < truth.end:
            raise Violation(
                f"node {node_id} leads {partition} in epoch {partition.leader_epoch} and ends at "
                f"{partition.log.end}, when {truth.end} was committed"
            )

    # -- logs ---------------------------------------------------------------------------------

    def _compare(self, machine: Machine, key: Key | None, log: Log, high_watermark: int) -> None:
        seen = self._seen.get((machine.node_id, key))
        if seen is None or seen.log is not log or seen.cuts != log.truncations:
            seen = self._seen[machine.node_id, key] = _Seen(log)
        if high_watermark > seen.end:
            truth = self._truths[None] if key is None else self.truth_of(key)
            start = max(seen.end, log.start)
            seen.end = truth.compare(log, start, high_watermark, f"node {machine.node_id}")

    # -- metadata -----------------------------------------------------------------------------

    def _follow(self, image: MetadataImage) -> None:
        if image.offset <= self._image_offset:
            return
        self._image_offset = image.offset
        for topic in image.topics.by_id.values():
            for index, state in topic.partitions.items():
                before = self._states.get((topic.id, index))
                if before is not state:
                    self._states[topic.id, index] = state
                    _check_state(f"{topic.name}-{index}", before, state)


def _check_state(name: str, before: PartitionImage | None, state: PartitionImage) -> None:
    if not set(state.isr) <= set(state.replicas):
        raise Violation(f"{name}: in sync are {state.isr}, replicas are {state.replicas}")
    if state.leader >= 0 and state.leader not in state.isr:
        raise Violation(f"{name}: node {state.leader} leads, and in sync are {state.isr}")
    if before is None:
        return
    if state.leader_epoch < before.leader_epoch or state.partition_epoch < before.partition_epoch:
        raise Violation(
            f"{name}: epochs fell from {before.leader_epoch}/{before.partition_epoch} to "
            f"{state.leader_epoch}/{state.partition_epoch}"
        )
    if state.leader_epoch == before.leader_epoch and state.leader != before.leader:
        raise Violation(f"{name}: two leaders in epoch {state.leader_epoch}")

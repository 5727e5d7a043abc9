"""Delayed records in the cluster: who sends them, and what must have become of them in the end."""

from __future__ import annotations

import asyncio
from collections import Counter

from penstock.model.delays import DELIVER_AT
from penstock.records.record import iterate
from penstock.replica.partition import Partition
from penstock.testing.history import Place
from penstock.testing.sim.clients.producer import ALL, NEVER, Identity, initialise, produce
from penstock.testing.sim.clients.talk import Talk
from penstock.testing.sim.clients.violation import Violation
from penstock.testing.sim.cluster import Cluster

PLACE = Place("late", 0)
BATCH_MAX = 3
PAUSE_MS = 300
AHEAD_MS_MAX = 2_500
PATIENCE_SECONDS = 8.0
SECONDS_MAX = 30.0


class Delaying:
    """A producer of delayed records, and what it was told of each."""

    def __init__(self, cluster: Cluster) -> None:
        self.acknowledged: dict[str, int] = {}
        """Values, and when they are due."""
        self.stopping = False
        self._cluster = cluster
        self._count = 0

    async def prepare(self) -> None:
        made = self._cluster.create_topic(
            PLACE.topic, 1, penstock_delivery_delay_enable="true", min_insync_replicas="2"
        )
        await self._cluster.client("admin-late", made).tasks[0]

    def start(self) -> None:
        self._cluster.client("delayer", self._produce())

    async def _produce(self) -> None:
        life = 0
        while not self.stopping:
            life += 1
            talk = self._cluster.talk(f"delayer.{life}")
            identity = await initialise(talk, self._cluster.loop.now + PATIENCE_SECONDS)
            sequence = 0
            while identity is not None and not self.stopping:
                await asyncio.sleep(talk.dice.randint(0, PAUSE_MS) / 1000)
                sent = await self._send(talk, identity, sequence)
                if not sent:
                    break
                sequence += sent

    async def _send(self, talk: Talk, identity: Identity, sequence: int) -> int:
        """How many were taken; 0 if nobody knows."""
        due = {}
        for _ in range(talk.dice.randint(1, BATCH_MAX)):
            self._count += 1
            due[f"late-{self._count}"] = talk.now_ms() + talk.dice.randint(0, AHEAD_MS_MAX)
        headers = [[(DELIVER_AT, str(at).encode())] for at in due.values()]
        deadline = self._cluster.loop.now + PATIENCE_SECONDS
        while self._cluster.loop.now < deadline:
            answer = await produce(talk, PLACE, identity, sequence, list(due), ALL, headers)
            if not answer.error:
                self.acknowledged |= due
                return len(due)
            if answer.error in NEVER:
                raise Violation(f"delayer was told {answer.error.name} at sequence {sequence}")
            await talk.pause()
        return 0

    # -- the end ------------------------------------------------------------------------------

    async def finish(self) -> None:
        """All that was acknowledged is delivered, each record once, and none too early."""
        self.stopping = True
        for machine in self._cluster.machines.values():
            machine.clock.skew_ms = 0  # a leader delivers by its own clock: somebody sets it right
        await self._cluster.until(
            lambda: self._all_are_there(),
            SECONDS_MAX,
            f"all {len(self.acknowledged)} delayed records are delivered",
        )
        read = Counter(value for value, _ in self._delivered())
        assert not [value for value, times in read.items() if times > 1], "delivered twice"
        for value, early_ms in self._delivered():
            assert early_ms <= 0, f"{value} was delivered {early_ms} ms too early"
        self._cluster.tell(f"{len(self.acknowledged)} delayed records were delivered")

    def _all_are_there(self) -> bool:
        return self.acknowledged.keys() <= {value for value, _ in self._delivered()}

    def _delivered(self) -> list[tuple[str, int]]:
        """What can be read, and by how much a leader delivered it too early by its own clock."""
        partition = self._led()
        if partition is None:
            return []
        found = []
        for head, data in partition.log.batches(0, partition.high_watermark):
            if head.is_control:
                continue
            for record in iterate(bytes(data), head=head):
                value = bytes(record.value or b"").decode()
                due = int(dict(record.headers)[DELIVER_AT] or b"")
                # What came late was never parked, and has its producer's time.
                is_parked = head.producer_id < 0
                found.append((value, due - record.timestamp if is_parked else 0))
        return found

    def _led(self) -> Partition | None:
        for machine in self._cluster.brokers:
            if machine.node is not None and machine.started:
                partition = machine.node.broker.hosted.get((PLACE.topic, PLACE.partition))
                if partition is not None and partition.leading:
                    return partition
        return None

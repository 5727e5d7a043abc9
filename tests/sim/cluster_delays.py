"""Delayed records in the cluster: who sends and reads them, and what must be so in the end."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from penstock.replica.partition import Partition
from penstock.testing.history import History, Place, Recorder
from penstock.testing.sim.clients.delay import Wishes, Witness
from penstock.testing.sim.clients.producer import Producer
from penstock.testing.sim.clients.reader import Reader
from penstock.testing.sim.clients.transactional import TransactionalProducer
from penstock.testing.sim.cluster import Cluster
from penstock.testing.sim.loop import EPOCH_MS
from penstock.testing.sim.process import Process

PLACE = Place("late", 0)
TRANSACTIONAL_ID = "txn-late"
PAUSE_MS = 300
PATIENCE_SECONDS = 8.0
SECONDS_MAX = 30.0


class Delaying:
    """A producer with transactions and one without, and a reader who sees when records come."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._slowest_ms = self._fastest_ms = 0
        self._wishes = Wishes(cluster.dice, self._now_ms, self._apart)
        self._recorders: list[Recorder] = []
        self._producers: list[Producer | TransactionalProducer] = []
        self._hosts: list[Process] = []
        self._reader = self._reader_of("reader-late", committed=True)
        self._ending = False

    @property
    def progress(self) -> int:
        """How many records were delivered to the reader."""
        return len(self._wishes.read_committed)

    async def prepare(self) -> None:
        made = self._cluster.create_topic(PLACE.topic, 1, penstock_delivery_delay_enable="true")
        await self._cluster.client("admin-late", made).tasks[0]

    def start(self) -> None:
        self._cluster.client("reader-late", self._reader.run())
        self._client("delayer", self._produce())
        self._client(TRANSACTIONAL_ID, self._transact())

    def _client(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        self._hosts.append(self._cluster.client(name, work))

    def _recorder(self, name: str) -> Recorder:
        # Notes of their own: what is told of an offset is told of where a record waits.
        made = Recorder(name, clock=self._cluster.nanoseconds)
        self._recorders.append(made)
        return made

    def _reader_of(self, name: str, *, committed: bool) -> Reader:
        witness = Witness(name, self._cluster.nanoseconds, self._wishes)
        return Reader(self._cluster.talk(name), PLACE, witness, committed=committed)

    async def _produce(self) -> None:
        life = 0
        while not self._ending:
            life += 1
            name = f"delayer.{life}"
            producer = Producer(
                self._cluster.talk(name),
                PLACE,
                self._recorder(name),
                pause_ms=PAUSE_MS,
                headers=self._wishes.headers_of,
            )
            self._producers.append(producer)
            await producer.run(PATIENCE_SECONDS)

    async def _transact(self) -> None:
        life = 0
        while not self._ending:
            life += 1
            name = f"{TRANSACTIONAL_ID}.{life}"
            producer = TransactionalProducer(
                self._cluster.talk(name),
                TRANSACTIONAL_ID,
                [PLACE],
                self._recorder(name),
                headers=self._wishes.headers_of,
            )
            self._producers.append(producer)
            await producer.run(PATIENCE_SECONDS)

    # -- clocks -------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return EPOCH_MS + round(self._cluster.loop.now * 1000)

    def look(self) -> None:
        """Remember how wrong clocks have been, at the most."""
        for machine in self._cluster.machines.values():
            self._slowest_ms = min(self._slowest_ms, machine.clock.skew_ms)
            self._fastest_ms = max(self._fastest_ms, machine.clock.skew_ms)

    def _apart(self) -> int:
        self.look()
        return self._fastest_ms - self._slowest_ms

    # -- the end ------------------------------------------------------------------------------

    def stop(self) -> None:
        """Nothing more is sent."""
        self._ending = True
        for producer in self._producers:
            producer.stopping = True

    async def finish(self) -> None:
        """All that was acknowledged is delivered, each record once, in order, none too early."""
        cluster = self._cluster
        await cluster.until(
            lambda: all(each.done for each in self._hosts), 2 * PATIENCE_SECONDS, "delayers end"
        )
        for machine in cluster.machines.values():
            # A leader goes by its own clock, and what a fast one was to keep for a second another
            # one keeps for a minute: from here on all are as fast as the fastest was.
            machine.clock.skew_ms = self._fastest_ms
        await cluster.until(self._nothing_waits, SECONDS_MAX, "no delayed record waits any more")
        history = History.of(*self._recorders)
        await cluster.until(
            lambda: not self._wishes.missing(history),
            SECONDS_MAX,
            "the reader has read all delayed records that were acknowledged",
        )
        last = self._reader_of("last-late", committed=False)
        await cluster.client("last-late", last.read_to_end()).tasks[0]
        self._reader.stopping = True
        self._wishes.judge(history)
        cluster.tell(f"{len(self._wishes.read)} records were delivered, some of them late")

    def _nothing_waits(self) -> bool:
        partition = self._led()
        if partition is None:
            return False
        return not partition.log.delays and self._reader.position >= partition.log.end

    def _led(self) -> Partition | None:
        for machine in self._cluster.brokers:
            if machine.node is not None and machine.started:
                partition = machine.node.broker.hosted.get((PLACE.topic, PLACE.partition))
                if partition is not None and partition.leading:
                    return partition
        return None

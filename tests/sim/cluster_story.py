"""What happens in one cluster: some seconds of troubles, then peace, and what must be true then."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Coroutine, Sequence
from typing import Any

from penstock.testing.history import Place, check
from penstock.testing.sim.clients.group import Committer
from penstock.testing.sim.clients.operator import Operator
from penstock.testing.sim.clients.producer import ALL, LEADER, Producer
from penstock.testing.sim.clients.reader import Reader
from penstock.testing.sim.clients.transactional import TransactionalProducer
from penstock.testing.sim.cluster import Cluster, Teller
from penstock.testing.sim.logs import heard
from penstock.testing.sim.loop import simulate
from penstock.testing.sim.process import Process
from penstock.testing.sim.promises import Promises

from .cluster_delays import Delaying
from .cluster_shares import Sharing
from .cluster_streams import Streaming
from .cluster_troubles import is_whole, make_trouble, mend

TROUBLED_SECONDS = 6.0
RECOVERY_SECONDS_MAX = 40.0
LOOK_SECONDS = 0.02
PARTITIONS = 2
PATIENCE_SECONDS = 8.0
"""After which a client gives up, and its successor goes on."""


SHARES, DELAYS, STREAMS = GUESTS = ("shares", "delays", "streams")
"""What lives in some worlds and not in others: all of it in each would take too long."""

Client = Producer | Reader | TransactionalProducer | Committer | Operator


def settings_of(seed: int) -> dict[str, str]:
    """Clusters differ: some make snapshots all the time, some copy in small pieces."""
    settings: dict[str, str] = {}
    if seed % 3 == 1:
        settings |= {
            "metadata.log.max.record.bytes.between.snapshots": "1500",
            "metadata.log.segment.ms": "1000",
            "metadata.max.retention.bytes": "3000",
        }
    if seed % 3 == 2:
        settings |= {
            "replica.fetch.max.bytes": "150",
            "replica.fetch.response.max.bytes": "400",
            "num.replica.fetchers": "2",
        }
    return settings


def guests_of(seed: int) -> Sequence[str]:
    """Which guests live in a world: none, one, two or all of them."""
    dice = random.Random(f"the guests of {seed}")
    return [guest for guest in GUESTS if dice.random() < 0.5]


class Story:
    """One seed."""

    def __init__(
        self, seed: int, teller: Teller | None = None, guests: Sequence[str] | None = None
    ) -> None:
        """Without `guests` the seed says who they are."""
        self.cluster = Cluster(seed, 3, settings_of(seed), teller, apart=seed % 5 == 4)
        self.seed = seed
        self.promises = Promises()
        self.places = self.cluster.places("t", PARTITIONS)
        self.ending = False
        self.clients: list[Client] = []
        self.hosts: list[Process] = []
        invited = guests_of(seed) if guests is None else guests
        self.cluster.tell(f"guests: {', '.join(invited) or 'none'}")
        self.sharing = self.delaying = self.streaming = None
        if SHARES in invited:
            self.sharing = Sharing(self.cluster, self.places[0], seed)
        if DELAYS in invited:
            self.delaying = Delaying(self.cluster)
        if STREAMS in invited:
            self.streaming = Streaming(self.cluster, "t", PARTITIONS, seed)
        self.guests = [it for it in (self.sharing, self.delaying, self.streaming) if it is not None]

    async def live(self) -> None:
        cluster = self.cluster
        watch = asyncio.create_task(self._watch())
        for machine in cluster.machines.values():
            machine.boot()
        await self._or_broken(watch, self._events())
        watch.cancel()

    async def _or_broken(self, watch: asyncio.Task[None], events: object) -> None:
        """The events to their end, or the first broken promise."""
        told = asyncio.ensure_future(events)  # type: ignore[call-overload]
        await asyncio.wait((watch, told), return_when=asyncio.FIRST_COMPLETED)
        if watch.done():
            watch.result()
        await told

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for machine in self.cluster.machines.values():
                self.promises.look(machine)
            for watched in (self.delaying, self.streaming):
                if watched is not None:
                    watched.look()
            if self.cluster.loop.failures:
                raise AssertionError(self.cluster.loop.failures[0])

    async def _events(self) -> None:
        cluster = self.cluster
        await cluster.until(lambda: self._all_ready(), 20, "all nodes are ready")
        await cluster.client("admin", cluster.create_topic("t", PARTITIONS)).tasks[0]
        for guest in self.guests:
            await guest.prepare()
        cluster.tell("the topic is there")
        self._start_clients()
        await asyncio.sleep(1.0)
        await make_trouble(cluster, cluster.loop.now + TROUBLED_SECONDS)
        await self._make_peace()
        await self._judge()

    def _all_ready(self) -> bool:
        return all(machine.ready for machine in self.cluster.machines.values())

    # -- clients ------------------------------------------------------------------------------

    def _start_clients(self) -> None:
        cluster = self.cluster
        for place in self.places:
            self._client(f"producer-{place.partition}", self._produce(place, ALL))
            self._client(f"careless-{place.partition}", self._produce(place, LEADER))
            for committed in (False, True):
                name = f"reader-{place.partition}-{'c' if committed else 'u'}"
                reader = Reader(
                    cluster.talk(name), place, cluster.recorder(name), committed=committed
                )
                self.clients.append(reader)
                self._client(name, reader.run())
        self._client("txn-0", self._transact("txn-0"))
        committer = Committer(
            cluster.talk("group-0"), "group-0", self.places[0], cluster.recorder("group-0")
        )
        self.clients.append(committer)
        self._client("group-0", committer.run())
        for guest in self.guests:
            guest.start()
        if self.seed % 2:
            self._client("operator", self._operate())

    def _client(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        self.hosts.append(self.cluster.client(name, work))

    async def _produce(self, place: Place, acks: int) -> None:
        kind = "producer" if acks == ALL else "careless"
        life = 0
        while not self.ending:
            life += 1
            name = f"{kind}-{place.partition}.{life}"
            producer = Producer(
                self.cluster.talk(name), place, self.cluster.recorder(name), acks=acks, pause_ms=300
            )
            self.clients.append(producer)
            await producer.run(PATIENCE_SECONDS)

    async def _operate(self) -> None:
        brokers = [machine.node_id for machine in self.cluster.brokers]
        operator = Operator(self.cluster.talk("operator"), self.places, brokers)
        self.clients.append(operator)
        await operator.run()

    async def _transact(self, transactional_id: str) -> None:
        life = 0
        while not self.ending:
            life += 1
            name = f"{transactional_id}.{life}"
            producer = TransactionalProducer(
                self.cluster.talk(name), transactional_id, self.places, self.cluster.recorder(name)
            )
            self.clients.append(producer)
            await producer.run(PATIENCE_SECONDS)

    # -- the end ------------------------------------------------------------------------------

    async def _make_peace(self) -> None:
        cluster = self.cluster
        cluster.tell("peace")
        cluster.network.heal()
        cluster.network.weather.reset = 0.0
        cluster.network.weather.delay_ms_max = 2.0
        for machine in cluster.machines.values():
            mend(cluster, machine)
        until = RECOVERY_SECONDS_MAX
        await cluster.until(lambda: self._mended(), until, "all nodes are ready")
        await cluster.until(lambda: is_whole(cluster), until, "all replicas are in sync")
        cluster.tell("all replicas are in sync")
        before = self._counts()
        await cluster.until(
            lambda: all(self._counts()[kind] > count + 2 for kind, count in before.items()),
            until,
            f"every kind of client gets on: {before} {self._counts()}",
        )

    def _mended(self) -> bool:
        for machine in self.cluster.machines.values():
            if not machine.up:
                machine.boot()  # it was on its way down when peace came
        return self._all_ready()

    def _counts(self) -> dict[str, int]:
        counts = dict.fromkeys(("acknowledged", "transactions", "commits"), 0)
        if self.sharing is not None:
            counts[SHARES] = self.sharing.ledger.accepts
        if self.delaying is not None:
            counts[DELAYS] = self.delaying.progress
        if self.streaming is not None:
            counts[STREAMS] = self.streaming.progress
        for client in self.clients:
            if isinstance(client, Producer):
                counts["acknowledged"] += client.acknowledged
            elif isinstance(client, TransactionalProducer):
                counts["transactions"] += client.committed
            elif isinstance(client, Committer):
                counts["commits"] += client.acknowledged
        return counts

    async def _judge(self) -> None:
        """Everybody stops, everything is read to its end, and the history is judged."""
        cluster = self.cluster
        self.ending = True
        for client in self.clients:
            client.stopping = True
        for stopped in (self.delaying, self.streaming):
            if stopped is not None:
                stopped.stop()
        await cluster.until(
            lambda: all(process.done for process in self.hosts), 2 * PATIENCE_SECONDS, "clients end"
        )
        for guest in self.guests:
            await guest.finish()
        for place in self.places:
            for committed in (False, True):
                name = f"last-{place.partition}-{'c' if committed else 'u'}"
                reader = Reader(
                    cluster.talk(name), place, cluster.recorder(name), committed=committed
                )
                await cluster.client(name, reader.read_to_end()).tasks[0]
        check(cluster.history)
        cluster.tell(f"{len(cluster.history)} operations, {self._counts()}")


def live(seed: int, teller: Teller | None = None, guests: Sequence[str] | None = None) -> Story:
    """The whole story of one seed; AssertionError where a promise is broken."""
    story = Story(seed, teller, guests)
    asyncio.set_event_loop(story.cluster.loop)
    cluster = story.cluster
    # When the collector comes is not the seed's to say, and what it ends may still have a word.
    gc.disable()
    try:
        with heard(cluster.loop, cluster.tell if teller is not None else None):
            simulate(story.live(), cluster.loop)
    finally:
        gc.enable()
    return story

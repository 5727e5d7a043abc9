"""What every client needs: connections, who leads what, and when to try again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.model.errors import ErrorCode
from penstock.net.peer import Peer, PeerLost
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
from penstock.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.message import Message
from penstock.testing.history.operations import Place
from penstock.testing.sim.loop import EPOCH_MS

ASK_SECONDS = 3.0
PAUSE_MS = (20, 200)
GROUP, TRANSACTION = 0, 1

Address = tuple[str, int]

LOST = ErrorCode.NETWORK_EXCEPTION
"""What a client says of a request that nobody answered."""


class Led(NamedTuple):
    """A partition as a client knows it."""

    leader: int
    epoch: int
    topic_id: bytes


class Talk:
    """One client's view of the cluster."""

    def __init__(self, name: str, bootstrap: Sequence[Address], dice: random.Random) -> None:
        self.name = name
        self.dice = dice
        self._bootstrap = list(bootstrap)
        self._brokers: dict[int, Address] = {}
        self._led: dict[Place, Led] = {}
        self._peers: dict[Address, Peer] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}

    async def ask(self, address: Address, request: Message, seconds: float = ASK_SECONDS) -> Any:
        """One request to one node; PeerLost if there is no answer."""
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = Peer(*address, client_id=self.name)
        return await peer.ask(request, seconds)

    def any_broker(self) -> Address:
        return self.dice.choice(self._bootstrap)

    async def pause(self) -> None:
        await asyncio.sleep(self.dice.randint(*PAUSE_MS) / 1000)

    def now_ms(self) -> int:
        """A client's clock, which is right."""
        return EPOCH_MS + round(asyncio.get_running_loop().time() * 1000)

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()

    # -- who leads ----------------------------------------------------------------------------

    async def leader_of(self, place: Place) -> tuple[Address, Led]:
        """Who leads a partition, as far as this client has heard; asks until somebody does."""
        while True:
            led = self._led.get(place)
            address = None if led is None else self._brokers.get(led.leader)
            if led is not None and address is not None:
                return address, led
            await self.refresh(place)

    def doubt(self, place: Place) -> None:
        """What this client believed about a partition was wrong, or may be."""
        led = self._led.get(place)
        if led is not None:
            self._led[place] = led._replace(leader=-1)

    async def refresh(self, place: Place) -> None:
        """Ask any broker, after a pause."""
        await self.pause()
        try:
            told = await self.ask(
                self.any_broker(),
                MetadataRequest(
                    topics=[MetadataRequestTopic(name=place.topic)],
                    allow_auto_topic_creation=False,
                ),
            )
        except PeerLost:
            return
        for broker in told.brokers:
            self._brokers[broker.node_id] = broker.host, broker.port
        for topic in told.topics:
            for each in topic.partitions:
                self._learn(
                    Place(place.topic, each.partition_index),
                    Led(each.leader_id, each.leader_epoch, topic.topic_id),
                )

    def _learn(self, place: Place, led: Led) -> None:
        # A broker that lags behind tells of leaders of the past: clients do not go back.
        before = self._led.get(place)
        if before is None or led.epoch >= before.epoch:
            self._led[place] = led

    # -- who coordinates ----------------------------------------------------------------------

    async def coordinate(self, kind: int, key: str, request: Message) -> Any:
        """Ask a group's or a transactional id's coordinator; PeerLost if there is no answer."""
        address = await self.coordinator_of(kind, key)
        try:
            return await self.ask(address, request)
        except PeerLost:
            self.doubt_coordinator(kind, key)
            raise

    def doubt_coordinator(self, kind: int, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    async def coordinator_of(self, kind: int, key: str) -> Address:
        """Who coordinates, as far as this client has heard; PeerLost if nobody would tell."""
        address = self._coordinators.get((kind, key))
        return address or await self._find(kind, key)

    async def _find(self, kind: int, key: str) -> Address:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        answer = await self.ask(self.any_broker(), request)
        found = answer.coordinators[0]
        if found.error_code:
            raise PeerLost(f"no coordinator: {ErrorCode(found.error_code).name}")
        address = self._coordinators[kind, key] = found.host, found.port
        return address

"""Other members of the quorum, as the driver asks them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE
from penstock.net.peer import NotLetIn, PeerLost
from penstock.raft.messages import (
    Ask,
    Fetch,
    FetchSnapshot,
    Probe,
    Replica,
    Reply,
    SnapshotReply,
)
from penstock.raft.wire import FETCH_WAIT_MS, Envelope, reply_of, request_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.net.network import Caller, Network
    from penstock.platform.chance import Chance
    from penstock.raft.voters import Voter, Voters

log = logging.getLogger("penstock.raft")

Address = tuple[str, int]


class Peers(Protocol):
    """Whom the driver asks. OSError where there is no answer."""

    async def ask(self, to: Replica, ask: Ask) -> tuple[int, Reply]:
        """Who answered (NO_NODE if anybody was asked), and what."""

    def learn(self, node: int, address: Address) -> None:
        """A member can be reached here."""

    def close(self) -> None: ...


LEARNT_MAX = 1000
"""Members whose addresses are remembered: no quorum is so large, whatever a stranger says."""

SNAPSHOT_BYTES_MAX = 1 << 30
"""Of a snapshot that is taken from a leader: it passes through memory."""


async def fetch_snapshot(
    peers: Peers, ask: FetchSnapshot, leader: int, on_piece: Callable[[], None]
) -> bytes:
    """A snapshot, piece by piece; PeerLost if the leader does not give it, or not whole."""
    data = bytearray()
    while True:
        _, reply = await peers.ask(Replica(leader), ask._replace(position=len(data)))
        if not isinstance(reply, SnapshotReply) or reply.error is not ErrorCode.NONE:
            raise PeerLost(f"refused: {reply}")
        data += reply.data
        if not reply.data or len(data) >= reply.size or reply.size > SNAPSHOT_BYTES_MAX:
            if len(data) != reply.size:
                raise PeerLost(f"{len(data)} of {reply.size} bytes came")
            return bytes(data)
        on_piece()


_NO_RIGHT = (
    "whoever it takes this node for has no right to ClusterAction; name that principal in "
    "super.users, or give it the right"
)


def _ignore() -> None:
    pass


class QuorumPeers:
    """Members behind their controller listeners.

    A fetch waits for news at the leader, and what is asked behind it would wait too: fetches have
    a connection of their own.
    """

    def __init__(
        self,
        envelope: Envelope,
        network: Network,
        addresses: Mapping[int, Address],
        bootstrap: Sequence[Address],
        chance: Chance,
        seconds_max: float,
        on_other_cluster: Callable[[], None] = _ignore,
    ) -> None:
        """`addresses` are the operator's word, and stand; all others are learnt as members tell
        of them. `on_other_cluster` is told if every known member turns out to be a stranger."""
        self._envelope = envelope
        self._network = network
        self._configured = dict(addresses)
        self._learnt: dict[int, Address] = {}
        self._bootstrap = list(bootstrap)
        self._chance = chance
        self._seconds_max = seconds_max
        self._on_other_cluster = on_other_cluster
        self._open: dict[tuple[Address, bool], Caller] = {}
        self._voters: Callable[[], Voters] | None = None
        self._seen: Mapping[int, Voter] = {}
        self._strangers: dict[Address, None] = {}
        self._refusals: dict[Address, str] = {}  # that were told
        self._met = False  # a member of this very cluster

    def learn(self, node: int, address: Address) -> None:
        """A member can be reached here, as it says itself, or as the leader says."""
        if len(self._learnt) < LEARNT_MAX or node in self._learnt:
            self._learnt[node] = address

    def follow(self, voters: Callable[[], Voters]) -> None:
        """Look for members also where the log says that they listen."""
        self._voters = voters

    def where(self, node: int) -> Address | None:
        """Where a member listens, as far as anybody has told: the last word counts."""
        self._read_voters()
        return self._configured.get(node) or self._learnt.get(node)

    def _read_voters(self) -> None:
        voters = {} if self._voters is None else self._voters().by_id
        if voters is self._seen:
            return
        before, self._seen = self._seen, voters
        for voter in voters.values():
            known = before.get(voter.id)
            if voter.endpoints and (known is None or known.endpoints != voter.endpoints):
                self.learn(voter.id, (voter.endpoints[0].host, voter.endpoints[0].port))

    async def ask(self, to: Replica, ask: Ask) -> tuple[int, Reply]:
        patience = self._seconds_max
        fetching = isinstance(ask, Fetch)
        if fetching:
            patience += FETCH_WAIT_MS / 1000
        if isinstance(ask, Probe):
            # Not where that node is known to be, if it is: where it is said to be.
            address = ask.voter.endpoints[0][1:3]
        else:
            address = self._address_of(to.id)
        peer = self._peer(address, fetching)
        try:
            response = await peer.ask(request_of(self._envelope, to, ask), patience)
        except NotLetIn as problem:
            self._tell_of_refusal(address, str(problem))
            raise
        try:
            reply = reply_of(ask, response)
        except ValueError as problem:
            raise PeerLost(f"node {to.id} answered something else: {problem}") from problem
        if reply.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._meet_stranger(address)
        else:
            self._met = True
            self._strangers.pop(address, None)
        if reply.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            self._tell_of_refusal(address, _NO_RIGHT)
        else:
            self._refusals.pop(address, None)
        for each in getattr(response, "node_endpoints", ()):
            self.learn(each.node_id, (each.host, each.port))
        return to.id, reply

    def _meet_stranger(self, address: Address) -> None:
        """Told once of each; and if nobody else is left, whoever wants to join is told."""
        if address in self._strangers:
            return
        self._strangers[address] = None
        host, port = address
        cluster = self._envelope.cluster_id
        log.error("the controller at %s:%d belongs to another cluster than %s", host, port, cluster)
        if not self._met and all(each in self._strangers for each in self._everybody()):
            self._on_other_cluster()

    def _tell_of_refusal(self, address: Address, why: str) -> None:
        """Told once, and again when the reason changes: it is asked for a few times a second."""
        if self._refusals.get(address) == why:
            return
        if len(self._refusals) < LEARNT_MAX or address in self._refusals:
            self._refusals[address] = why
        log.warning("this node does not get in at the controller %s:%d: %s", *address, why)

    def close(self) -> None:
        for peer in self._open.values():
            peer.close()
        self._open.clear()

    def _address_of(self, node: int) -> Address:
        if node != NO_NODE:
            address = self.where(node)
            if address is None:
                raise PeerLost(f"nobody has told yet where node {node} is")
            return address
        known = self._everybody()
        if not known:
            raise PeerLost("no other member of the quorum is known")
        return known[self._chance.between(0, len(known) - 1)]

    def _everybody(self) -> list[Address]:
        """Where somebody may be who can tell who leads; not this node itself."""
        self._read_voters()
        by_id = {**self._learnt, **self._configured}
        others = [it for key, it in by_id.items() if key != self._envelope.own.id]
        return self._bootstrap + others

    def _peer(self, address: Address, fetching: bool) -> Caller:
        peer = self._open.get((address, fetching))
        if peer is None:
            peer = self._network.caller(*address, client_id=f"raft-{self._envelope.own.id}")
            self._open[address, fetching] = peer
        return peer


class NoPeers:
    """A sole voter has nobody to ask."""

    async def ask(self, to: Replica, ask: Ask) -> tuple[int, Reply]:
        raise PeerLost(f"there is no node {to.id} to be asked: {ask}")

    def learn(self, node: int, address: Address) -> None:
        pass

    def close(self) -> None:
        pass

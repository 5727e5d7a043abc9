"""Members of a quorum over real sockets: Kafka's messages between real machines."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.metadata.cluster import Endpoint
from penstock.model.ids import NO_NODE
from penstock.net.network import TcpNetwork
from penstock.net.peer import PeerLost
from penstock.platform.chance import SystemChance
from penstock.platform.clock import SystemClock
from penstock.platform.disk import Disk
from penstock.platform.workers import ThreadWorkers
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.api_versions import ApiVersion, ApiVersionsResponse
from penstock.protocol.headers import read_request_header
from penstock.protocol.registry import API
from penstock.raft import peers as peers_module
from penstock.raft.driver import RaftDriver
from penstock.raft.journal import Journal
from penstock.raft.messages import Fetch, FetchSnapshot, Position, Replica, SnapshotReply, Vote
from penstock.raft.peers import NoPeers, QuorumPeers, fetch_snapshot
from penstock.raft.service import QuorumService
from penstock.raft.settings import MetadataLogSettings
from penstock.raft.snapshots import SnapshotId
from penstock.raft.timeouts import Timeouts
from penstock.raft.voters import Voter, static_voters
from penstock.raft.wire import Envelope
from penstock.storage.context import LogContext

from .quorum import LEVEL, topic

CLUSTER = "a cluster id of 22 byte"
VOTERS = static_voters(Voter(number) for number in (1, 2, 3))
HASTY = Timeouts(election=300, fetch=800, backoff_max=200)
SPOKEN = (
    ApiKey.API_VERSIONS,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH,
    ApiKey.FETCH_SNAPSHOT,
)


class Member:
    """One node: a driver, what it answers with, and a socket."""

    def __init__(self, number: int, root: Path, cluster: str = CLUSTER) -> None:
        self.number = number
        self.cluster = cluster
        directory = root / str(number)
        directory.mkdir(exist_ok=True)
        self.journal = Journal(
            LogContext(Disk()), str(directory), VOTERS, MetadataLogSettings(), 0, sole=False
        )
        self.workers = ThreadWorkers(2)
        self.raft: RaftDriver
        self.service: QuorumService
        self._connections: set[asyncio.StreamWriter] = set()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def start(self, ports: dict[int, int], bootstrap: list[int] | None = None) -> None:
        envelope = Envelope(self.cluster, Replica(self.number))
        addresses = {number: ("127.0.0.1", port) for number, port in ports.items()}
        known = [("127.0.0.1", port) for port in bootstrap or []]
        self.peers = QuorumPeers(envelope, TcpNetwork(), addresses, known, SystemChance(), 2)
        clock, chance = SystemClock(), SystemChance()
        self.raft = RaftDriver(
            self.journal, self.number, clock, chance, self.workers, self.peers, HASTY
        )
        self.service = QuorumService(
            self.raft,
            envelope,
            lambda node: Endpoint("C", "127.0.0.1", ports[node], 0) if node in ports else None,
        )
        self.raft.load()
        await self.raft.start(lambda end: self.journal.replay_to(end) and None)

    async def close(self) -> None:
        await self.raft.close()
        self._server.close()
        for writer in self._connections:
            writer.close()
        self.workers.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                content = await self._answer(memoryview(frame))
                writer.write(struct.pack(">i", len(content)) + content)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()  # the peer hung up

    async def _answer(self, frame: memoryview) -> bytes:
        api_key, version, correlation_id, _, at = read_request_header(frame)
        spec = API[api_key]
        response: Any
        if api_key == ApiKey.API_VERSIONS:
            served = [
                ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
                for key, versions in ((int(key), API[key].codec_versions) for key in SPOKEN)
            ]
            response = ApiVersionsResponse(api_keys=served)
        else:
            request, _ = spec.request_class.read(bytes(frame), version, at)
            answer = self.service.answer(request)
            response = await answer if isinstance(answer, Awaitable) else answer
        header = b"\0" if spec.response_header_version(version) else b""
        out = bytearray(struct.pack(">i", correlation_id)) + header
        response.write(version, out)
        return bytes(out)

    @property
    def names(self) -> list[str]:
        return sorted(self.journal.loader.image.topics.by_name)


@asynccontextmanager
async def members(root: Path, count: int = 3) -> AsyncIterator[list[Member]]:
    made = [Member(number, root) for number in range(1, count + 1)]
    for member in made:
        await member.listen()
    ports = {member.number: member.port for member in made}
    for member in made:
        await member.start(ports)
    try:
        yield made
    finally:
        for member in made:
            await member.close()


async def leader_of(some: list[Member]) -> Member:
    for _ in range(1000):
        for member in some:
            if member.raft.leading:
                return member
        await asyncio.sleep(0.02)
    raise AssertionError("nobody leads")


async def propose(some: list[Member], name: str) -> int:
    raft = (await leader_of(some)).raft
    end = raft.propose([topic(name)], LEVEL)
    await raft.committed(end)
    return end


async def until(some: list[Member], end: int) -> None:
    for _ in range(1000):
        if all(member.raft.high_watermark >= end for member in some):
            return
        await asyncio.sleep(0.02)
    raise AssertionError({member.number: member.raft.high_watermark for member in some})


async def test_members_elect_one_copy_it_and_go_on_without_it(tmp_path: Path) -> None:
    async with members(tmp_path) as all_three:
        await until(all_three, await propose(all_three, "a"))
        first = await leader_of(all_three)
        all_three.remove(first)
        await first.close()
        await until(all_three, await propose(all_three, "b"))
        assert [member.names for member in all_three] == [["a", "b"]] * 2


async def test_an_observer_that_knows_one_address_finds_the_leader_and_its_snapshot(
    tmp_path: Path,
) -> None:
    async with members(tmp_path) as voters:
        await until(voters, await propose(voters, "a"))
        for member in voters:
            journal = member.journal
            await member.raft.snapshot(journal.replay_to(member.raft.high_watermark).image)
            await asyncio.sleep(0)
            journal.log.advance_start(journal.snapshot_id.end)
            journal.start_epoch = journal.snapshot_id.epoch
        observer = Member(9, tmp_path)
        await observer.listen()
        follower = next(member for member in voters if not member.raft.leading)
        await observer.start({}, bootstrap=[follower.port])
        await until([observer], await propose(voters, "b"))
        assert observer.names == ["a", "b"]
        assert observer.journal.log.start > 0
        assert (observer.raft.leader, observer.raft.leading) == (voters[0].raft.leader, False)
        await observer.close()


async def test_a_member_of_another_cluster_is_neither_heard_nor_followed(tmp_path: Path) -> None:
    async with members(tmp_path) as voters:
        await propose(voters, "a")
        epochs = {member.raft.epoch for member in voters}
        stranger = Member(9, tmp_path, cluster="another cluster")
        await stranger.listen()
        await stranger.start({member.number: member.port for member in voters})
        vote = Vote(99, Replica(9), Position(0, 0), False)
        _, reply = await stranger.peers.ask(Replica(1), vote)
        assert reply.error.name == "INCONSISTENT_CLUSTER_ID"
        await asyncio.sleep(0.3)
        assert stranger.raft.leader == NO_NODE
        assert {member.raft.epoch for member in voters} == epochs
        await stranger.close()


async def test_a_member_that_is_stopping_says_so(tmp_path: Path) -> None:
    async with members(tmp_path, 1) as (member,):
        asker = QuorumPeers(
            Envelope(CLUSTER, Replica(2)),
            TcpNetwork(),
            {1: ("127.0.0.1", member.port)},
            [],
            SystemChance(),
            2,
        )
        member.raft._fail(OSError("the disk is gone"))
        asks = [
            Vote(1, Replica(2), Position(0, 0), False),
            Fetch(1, Replica(2), Position(0, 0), -1),
            FetchSnapshot(1, Replica(2), SnapshotId(1, 1), 0),
        ]
        for ask in asks:
            _, reply = await asker.ask(Replica(1), ask)
            assert reply.error.name == "BROKER_NOT_AVAILABLE"
        asker.close()


async def test_who_knows_nobody_loses_what_it_asks() -> None:
    envelope = Envelope(CLUSTER, Replica(1))
    peers = QuorumPeers(envelope, TcpNetwork(), {1: ("127.0.0.1", 1)}, [], SystemChance(), 1)
    fetch = Fetch(0, Replica(1), Position(0, 0), -1)
    for to in (2, NO_NODE):
        with pytest.raises(PeerLost):
            await peers.ask(Replica(to), fetch)
    with pytest.raises(PeerLost):
        await NoPeers().ask(Replica(2), fetch)


@pytest.mark.parametrize(
    "replies",
    [
        [SnapshotReply(1, 2, 10, b"")],
        [SnapshotReply(1, 2, 10, b"x" * 11)],
        [SnapshotReply(1, 2, 10, b"12345"), SnapshotReply(1, 2, 3, b"12345")],
        [SnapshotReply(1, 2, -1, b"12345")],
        [SnapshotReply(1, 2, peers_module.SNAPSHOT_BYTES_MAX + 1, b"12345")],
    ],
)
async def test_a_snapshot_that_does_not_come_whole_is_not_taken(
    replies: list[SnapshotReply],
) -> None:
    class Told(NoPeers):
        async def ask(self, to: Replica, ask: Any) -> tuple[int, Any]:
            return to.id, replies.pop(0)

    with pytest.raises(PeerLost):
        await fetch_snapshot(
            Told(), FetchSnapshot(1, Replica(1), SnapshotId(9, 1), 0), 2, lambda: None
        )

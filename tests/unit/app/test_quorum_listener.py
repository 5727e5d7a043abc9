"""What a node's controller listener says to members of a quorum, over a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.net.peer import Peer
from penstock.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.generated.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.generated.envelope import EnvelopeRequest
from penstock.protocol.headers import write_request_header
from penstock.raft.batches import decode_records
from penstock.raft.messages import BeginEpoch, Fetch, FetchReply, Position, Replica, Vote, VoteReply
from penstock.raft.wire import Envelope, reply_of, request_of
from penstock.records.batch import read_head
from penstock.security.principal import ANONYMOUS
from penstock.server.senders import packed_principal
from tests.unit.server.asking import running_node

OBSERVER = Replica(99, b"9" * 16)


async def ask(node: Node, peer: Peer, what: Any) -> Any:
    envelope = Envelope(node.broker.cluster_id, OBSERVER)
    return reply_of(what, await peer.ask(request_of(envelope, Replica(1), what), 10))


def controller_of(node: Node) -> Peer:
    (port,) = [each.port for each in node._listeners.for_the_quorum]
    return Peer("127.0.0.1", port, "test")


async def test_an_observer_copies_the_metadata_log(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        peer = controller_of(node)
        found: FetchReply = await ask(node, peer, Fetch(0, OBSERVER, Position(0, 0), -1))
        assert found.error is ErrorCode.FENCED_LEADER_EPOCH
        epoch = found.epoch
        names, end = [], Position(0, 0)
        while True:
            found = await ask(node, peer, Fetch(epoch, OBSERVER, end, -1))
            if not found.records:
                break
            at = 0
            while at < len(found.records):
                head = read_head(memoryview(found.records), at)
                batch = found.records[at : at + head.length + 12]
                names += [type(each).__name__ for each in decode_records(head, batch)]
                end = Position(head.leader_epoch, head.base_offset + head.last_offset_delta + 1)
                at += head.length + 12
            if end.end >= found.high_watermark:
                break
        assert "FeatureLevelRecord" in names
        assert "RegisterBrokerRecord" in names
        peer.close()


async def test_a_fetch_waits_for_news(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        peer = controller_of(node)
        raft = node.controller.raft
        end = Position(raft.journal.view.last_epoch, raft.journal.log.end)
        wait = asyncio.create_task(
            ask(node, peer, Fetch(raft.epoch, OBSERVER, end, raft.high_watermark))
        )
        await asyncio.sleep(0.05)
        assert not wait.done()
        topic = CreatableTopic(name="news", num_partitions=1, replication_factor=1)
        await node.broker.controller.handle(19, CreateTopicsRequest(topics=[topic]))
        assert (await wait).records
        peer.close()


async def test_a_stranger_who_claims_a_later_epoch_only_delays_a_sole_voter(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path) as node:
        peer = controller_of(node)
        before = node.controller.raft.epoch
        vote = Vote(before + 5, OBSERVER, Position(0, 0), False)
        reply: VoteReply = await ask(node, peer, vote)
        assert not reply.granted, "its log lacks what is committed"
        told = await ask(node, peer, BeginEpoch(1, 99))
        assert told.error is ErrorCode.FENCED_LEADER_EPOCH
        for _ in range(500):
            if node.controller.active:
                break
            await asyncio.sleep(0.02)
        assert node.controller.raft.epoch > before + 5
        topic = CreatableTopic(name="after", num_partitions=1, replication_factor=1)
        made = await node.broker.controller.handle(19, CreateTopicsRequest(topics=[topic]))
        assert [each.error_code for each in made.topics] == [0]
        peer.close()


def enveloped(request: Any, version: int) -> EnvelopeRequest:
    inside = bytearray()
    write_request_header(inside, request.API_KEY, version, 7, "client")
    request.write(version, inside)
    return EnvelopeRequest(
        request_data=bytes(inside),
        request_principal=packed_principal(ANONYMOUS),
        client_host_address=b"\x7f\0\0\1",
    )


async def test_a_broker_passes_on_what_its_client_asked(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        peer = controller_of(node)
        topic = CreatableTopic(name="passed-on", num_partitions=1, replication_factor=1)
        answer = await peer.ask(enveloped(CreateTopicsRequest(topics=[topic]), 7), 10)
        assert answer.error_code == 0
        response, _ = CreateTopicsResponse.read(answer.response_data, 7, 5)  # behind the header
        assert [(each.name, each.error_code) for each in response.topics] == [("passed-on", 0)]
        assert "passed-on" in node.broker.image.topics.by_name
        peer.close()


async def test_what_a_broker_may_not_pass_on_is_refused(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        peer = controller_of(node)
        for wrong in (
            enveloped(BrokerHeartbeatRequest(), 1),
            enveloped(EnvelopeRequest(), 0),
            EnvelopeRequest(request_data=b"\0\x13"),
        ):
            answer = await peer.ask(wrong, 10)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
        peer.close()

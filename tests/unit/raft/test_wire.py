"""What members say to each other survives Kafka's messages, in every version that can say it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.metadata.cluster import Endpoint
from penstock.model.errors import ErrorCode
from penstock.model.ids import METADATA_TOPIC_ID
from penstock.protocol.registry import API
from penstock.raft.messages import (
    Ask,
    BeginEpoch,
    EndEpoch,
    EpochReply,
    Fetch,
    FetchReply,
    FetchSnapshot,
    MemberReply,
    Position,
    Replica,
    SnapshotReply,
    Vote,
    VoteReply,
)
from penstock.raft.snapshots import SnapshotId
from penstock.raft.wire import (
    Envelope,
    Refused,
    ask_of,
    refusal_of,
    reply_of,
    request_of,
    response_to,
)

CLUSTER = "a cluster id of 22 byte"
ONE = Replica(1, b"1" * 16)
TWO = Replica(2, b"2" * 16)
ASKER = Envelope(CLUSTER, ONE, (Endpoint("CONTROLLER", "one", 9093, 0),))
ASKED = Envelope(CLUSTER, TWO)

CONVERSATIONS: list[tuple[Ask, MemberReply]] = [
    (Vote(7, ONE, Position(6, 99), True), VoteReply(7, 3, True)),
    (Vote(7, ONE, Position(6, 99), False), VoteReply(8, -1, error=ErrorCode.FENCED_LEADER_EPOCH)),
    (BeginEpoch(7, 1), EpochReply(7, 1)),
    (EndEpoch(7, 1, (TWO, Replica(3, b"3" * 16))), EpochReply(7, 1)),
    (Fetch(7, ONE, Position(6, 99), 98), FetchReply(7, 2, 120, b"batches")),
    (Fetch(7, ONE, Position(6, 99), 98), FetchReply(7, 2, 5, diverging=Position(4, 50))),
    (Fetch(7, ONE, Position(0, 0), -1), FetchReply(7, 2, 5, snapshot=SnapshotId(40, 3))),
    (
        Fetch(7, ONE, Position(6, 99), 98),
        FetchReply(8, 3, -1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ),
    (FetchSnapshot(7, ONE, SnapshotId(40, 3), 512), SnapshotReply(7, 2, 4096, b"piece")),
]


def over_the_wire(message: Any, version: int) -> Any:
    out = bytearray()
    message.write(version, out)
    return type(message).read(bytes(out), version)[0]


@pytest.mark.parametrize(("ask", "reply"), CONVERSATIONS)
def test_what_is_asked_and_answered_arrives_as_it_was_meant(ask: Ask, reply: MemberReply) -> None:
    request = request_of(ASKER, TWO, ask)
    newest = API[request.API_KEY].codec_versions[-1]
    heard = over_the_wire(request, newest)
    assert ask_of(ASKED, heard) == ask
    response = over_the_wire(response_to(heard, reply), newest)
    assert reply_of(ask, response) == reply


@pytest.mark.parametrize(("ask", "reply"), CONVERSATIONS)
def test_every_version_can_be_written(ask: Ask, reply: MemberReply) -> None:
    request = request_of(ASKER, TWO, ask)
    spec = API[request.API_KEY]
    for version in spec.codec_versions:
        if isinstance(ask, Fetch) and version < 15:
            continue  # from before a replica said so in a field of its own
        if isinstance(ask, Vote) and ask.pre and version < 2:
            continue  # from before one could ask so
        heard = over_the_wire(request, version)
        told = reply_of(ask, over_the_wire(response_to(heard, reply), version))
        assert told.error is reply.error


def test_a_leader_tells_where_it_is() -> None:
    request = request_of(ASKER, TWO, BeginEpoch(7, 1))
    heard = over_the_wire(request, 1)
    assert [(each.name, each.host, each.port) for each in heard.leader_endpoints] == [
        ("CONTROLLER", "one", 9093)
    ]


def test_an_answer_tells_where_the_leader_is() -> None:
    request = request_of(ASKER, TWO, Fetch(7, ONE, Position(6, 99), 98))
    reply = FetchReply(8, 3, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    response = over_the_wire(response_to(request, reply, Endpoint("C", "three", 9095, 0)), 17)
    found = [(each.node_id, each.host, each.port) for each in response.node_endpoints]
    assert found == [(3, "three", 9095)]


@pytest.mark.parametrize("ask", [ask for ask, _ in CONVERSATIONS])
def test_another_cluster_is_refused(ask: Ask) -> None:
    request = request_of(ASKER._replace(cluster_id="another"), TWO, ask)
    with pytest.raises(Refused) as refused:
        ask_of(ASKED, request)
    answer = refusal_of(request, refused.value)
    assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID  # type: ignore[attr-defined]


@pytest.mark.parametrize("ask", [Vote(7, ONE, Position(6, 99), False), BeginEpoch(7, 1)])
@pytest.mark.parametrize("meant", [Replica(3, b"3" * 16), Replica(2, b"x" * 16)])
def test_what_is_meant_for_another_voter_or_its_old_disk_is_refused(
    ask: Ask, meant: Replica
) -> None:
    request = request_of(ASKER, meant, ask)
    with pytest.raises(Refused) as refused:
        ask_of(ASKED, request)
    reply = reply_of(ask, refusal_of(request, refused.value))
    assert reply.error is ErrorCode.INVALID_VOTER_KEY


def test_another_topic_is_refused() -> None:
    request: Any = request_of(ASKER, TWO, Vote(7, ONE, Position(6, 99), False))
    request.topics[0].topic_name = "orders"
    with pytest.raises(Refused):
        ask_of(ASKED, request)
    fetch: Any = request_of(ASKER, TWO, Fetch(7, ONE, Position(6, 99), 98))
    fetch.topics[0].topic, fetch.topics[0].topic_id = "", b"x" * 16
    with pytest.raises(Refused):
        ask_of(ASKED, fetch)
    fetch.topics[0].topic_id = METADATA_TOPIC_ID
    assert ask_of(ASKED, fetch) == Fetch(7, ONE, Position(6, 99), 98)


@pytest.mark.parametrize("topics", [0, 2])
def test_a_request_for_nothing_or_too_much_is_refused(topics: int) -> None:
    request: Any = request_of(ASKER, TWO, Vote(7, ONE, Position(6, 99), False))
    request.topics = request.topics * topics
    with pytest.raises(Refused):
        ask_of(ASKED, request)


def test_an_answer_without_the_metadata_log_is_no_answer() -> None:
    ask = Vote(7, ONE, Position(6, 99), False)
    response: Any = response_to(request_of(ASKER, TWO, ask), VoteReply(7))
    response.topics = []
    with pytest.raises(ValueError):
        reply_of(ask, response)


def test_what_no_member_can_say_is_refused_with_the_epoch_of_the_one_who_refuses() -> None:
    possible = Vote(7, ONE, Position(6, 99), False)
    fetch = Fetch(7, ONE, Position(6, 99), 98)
    impossible: list[Ask] = [
        possible._replace(candidate=Replica(-1)),
        possible._replace(log=Position(7, 99)),
        possible._replace(log=Position(8, 99), pre=True),
        possible._replace(log=Position(-1, 99)),
        possible._replace(log=Position(6, -1)),
        BeginEpoch(7, -1),
        BeginEpoch(-1, 1),
        EndEpoch(7, -5, ()),
        fetch._replace(log=Position(8, 99)),
        fetch._replace(log=Position(-1, 0)),
        fetch._replace(log=Position(0, -1)),
    ]
    for ask in impossible:
        request = request_of(ASKER, TWO, ask)
        with pytest.raises(Refused) as refused:
            ask_of(ASKED, request)
        reply = reply_of(ask, refusal_of(request, refused.value, 9, 2))
        assert (reply.error, reply.epoch) == (ErrorCode.INVALID_REQUEST, 9)
    assert ask_of(ASKED, request_of(ASKER, TWO, possible._replace(log=Position(7, 9), pre=True)))


@pytest.mark.parametrize(("ask", "reply"), CONVERSATIONS)
def test_another_partition_is_refused_as_kafka_refuses_it(ask: Ask, reply: MemberReply) -> None:
    request: Any = request_of(ASKER, TWO, ask)
    part = request.topics[0].partitions[0]
    setattr(part, "partition_index" if hasattr(part, "partition_index") else "partition", 1)
    with pytest.raises(Refused) as refused:
        ask_of(ASKED, request)
    told = reply_of(ask, refusal_of(request, refused.value))
    assert type(told) is type(reply)
    of_snapshots = isinstance(ask, FetchSnapshot)
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST
    assert told.error is (unknown if of_snapshots else invalid)

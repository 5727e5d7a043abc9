"""Where members of the quorum are looked for, and what is said of strangers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.metadata.cluster import Endpoint
from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE
from penstock.net.peer import NotLetIn, PeerLost
from penstock.protocol.generated.begin_quorum_epoch import BeginQuorumEpochRequest
from penstock.protocol.generated.fetch import FetchResponse
from penstock.protocol.message import Message
from penstock.raft.messages import BeginEpoch, EpochReply, Fetch, FetchReply, Position, Replica
from penstock.raft.peers import Address, QuorumPeers
from penstock.raft.service import QuorumService
from penstock.raft.voters import Voter, Voters
from penstock.raft.wire import Envelope, request_of, response_to
from penstock.testing.sim.chance import SeededChance

OWN = Replica(1)
FETCH = Fetch(0, OWN, Position(0, 0), -1)


class Network:
    """Answers as each address is told to."""

    def __init__(self) -> None:
        self.answers: dict[Address, Message | Exception] = {}
        self.asked: list[Address] = []

    def caller(self, host: str, port: int, client_id: str) -> Line:
        return Line(self, (host, port))


class Line:
    def __init__(self, network: Network, address: Address) -> None:
        self._network = network
        self._address = address

    async def ask(self, request: Message, seconds_max: float, version: int | None = None) -> Any:
        self._network.asked.append(self._address)
        answer = self._network.answers.get(self._address, PeerLost("silence"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        pass


def peers_of(
    network: Network,
    configured: dict[int, Address],
    bootstrap: list[Address],
    strange: list[str] | None = None,
) -> QuorumPeers:
    told = strange if strange is not None else []
    return QuorumPeers(
        Envelope("ours", OWN),
        network,
        configured,
        bootstrap,
        SeededChance(random.Random(1)),
        2,
        lambda: told.append("all are strangers"),
    )


def at(number: int) -> Address:
    return f"host-{number}", 9000 + number


def voters(*numbers: int, moved: int = 0) -> Voters:
    found = {}
    for number in numbers:
        host, port = at(number)
        endpoint = Endpoint("CONTROLLER", host, port + (100 if number == moved else 0), 0)
        found[number] = Voter(number, bytes(16), (endpoint,))
    return Voters(found, 1)


def leads(number: int) -> Message:
    request: Any = request_of(Envelope("ours", OWN), Replica(2), FETCH)
    reply = FetchReply(3, number, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    host, port = at(number)
    return response_to(request, reply, Endpoint("", host, port, 0))


STRANGE = FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
DENIED = FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


async def test_who_knows_one_member_learns_of_the_leader_from_it() -> None:
    network = Network()
    network.answers[at(2)] = leads(3)
    peers = peers_of(network, {}, [at(2)])
    assert peers.where(3) is None
    await peers.ask(Replica(NO_NODE), FETCH)
    assert peers.where(3) == at(3)


async def test_the_log_says_where_voters_listen_and_its_last_word_counts() -> None:
    peers = peers_of(Network(), {}, [])
    named = voters(1, 2, 3)
    peers.follow(lambda: named)
    assert [peers.where(number) for number in (2, 3, 4)] == [at(2), at(3), None]
    peers.learn(3, ("elsewhere", 1))
    assert peers.where(3) == ("elsewhere", 1), "it said so itself, later"
    named = voters(1, 2, 3, moved=2)
    assert peers.where(2) == ("host-2", 9102)
    assert peers.where(3) == ("elsewhere", 1), "of this one the log says nothing new"


async def test_what_the_operator_wrote_is_not_overruled() -> None:
    peers = peers_of(Network(), {2: at(2)}, [])
    peers.learn(2, ("elsewhere", 1))
    assert peers.where(2) == at(2)


async def test_a_stranger_is_named_once_and_the_others_are_asked_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network, strange = Network(), list[str]()
    network.answers = {at(2): STRANGE, at(3): leads(3)}
    peers = peers_of(network, {1: at(1), 2: at(2), 3: at(3)}, [], strange)
    for _ in range(20):
        await peers.ask(Replica(NO_NODE), FETCH)
    assert at(1) not in network.asked, "nobody asks itself"
    assert not strange
    assert caplog.text.count("host-2:9002 belongs to another cluster than ours") == 1


async def test_where_all_are_strangers_it_is_told() -> None:
    network, strange = Network(), list[str]()
    network.answers = {at(2): STRANGE}
    peers = peers_of(network, {1: at(1), 2: at(2), 3: at(3)}, [], strange)
    await peers.ask(Replica(2), FETCH)
    with pytest.raises(PeerLost):
        await peers.ask(Replica(3), FETCH)
    assert not strange, "the third one may yet be the right one"
    network.answers[at(3)] = STRANGE
    await peers.ask(Replica(3), FETCH)
    assert strange == ["all are strangers"]


async def test_who_has_met_its_cluster_does_not_give_up_on_it() -> None:
    network, strange = Network(), list[str]()
    network.answers = {at(2): leads(2)}
    peers = peers_of(network, {2: at(2)}, [], strange)
    await peers.ask(Replica(2), FETCH)
    network.answers = {at(2): STRANGE}
    await peers.ask(Replica(2), FETCH)
    assert not strange


# -- a leader says where it listens ----------------------------------------------------------------


class Driver:
    """Believes a leader, or not."""

    epoch, leader = 4, 7

    def __init__(self, error: ErrorCode) -> None:
        self._error = error

    def answer(self, ask: BeginEpoch) -> EpochReply:
        return EpochReply(ask.epoch, ask.leader, self._error)


def announced(error: ErrorCode) -> tuple[list[tuple[int, Address]], BeginQuorumEpochRequest]:
    learnt: list[tuple[int, Address]] = []
    driver: Any = Driver(error)
    service = QuorumService(
        driver, Envelope("ours", OWN), lambda _: None, lambda *told: learnt.append(told)
    )
    endpoints = (Endpoint("CONTROLLER", "far", 9093, 0), Endpoint("OTHER", "away", 1, 0))
    begin = request_of(Envelope("ours", Replica(7), endpoints), OWN, BeginEpoch(4, 7))
    assert isinstance(begin, BeginQuorumEpochRequest)
    service.answer(begin)
    return learnt, begin


def test_a_leader_that_is_believed_is_found_where_it_says() -> None:
    learnt, _ = announced(ErrorCode.NONE)
    assert learnt == [(7, ("far", 9093))]


def test_a_leader_of_the_past_is_not_looked_for() -> None:
    learnt, _ = announced(ErrorCode.FENCED_LEADER_EPOCH)
    assert not learnt


async def test_who_is_not_let_in_says_so_once_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    peers = peers_of(network, {2: at(2), 3: at(3)}, [])
    for reason in ("wrong password", "wrong password", "certificate expired", "wrong password"):
        network.answers[at(2)] = NotLetIn(f"host-2:9002 cannot be reached: {reason}")
        for _ in range(3):
            with pytest.raises(NotLetIn):
                await peers.ask(Replica(2), FETCH)
    assert caplog.text.count("wrong password") == 2
    assert caplog.text.count("certificate expired") == 1
    with pytest.raises(PeerLost):
        await peers.ask(Replica(3), FETCH)
    assert "silence" not in caplog.text, "who is not there yet is nothing unusual"


async def test_who_is_let_in_without_a_right_to_be_a_node_hears_which(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    network.answers[at(2)] = DENIED
    peers = peers_of(network, {2: at(2)}, [])
    for _ in range(3):
        await peers.ask(Replica(2), FETCH)
    assert caplog.text.count("ClusterAction") == 1
    network.answers[at(2)] = leads(2)
    await peers.ask(Replica(2), FETCH)
    network.answers[at(2)] = DENIED
    await peers.ask(Replica(2), FETCH)
    assert caplog.text.count("ClusterAction") == 2, "it was withdrawn"

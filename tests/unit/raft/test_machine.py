from __future__ import annotations

import pytest

from penstock.model.invariants import InvariantViolated
from penstock.raft.election_state import (
    CorruptElectionState,
    ElectionState,
    decode,
    encode,
)
from penstock.raft.machine import (
    AppendLeaderChange,
    Commit,
    Raft,
    Role,
    SaveElection,
)
from penstock.raft.voters import Voter, Voters, static_voters

ALONE = static_voters([Voter(1)])
THREE = static_voters([Voter(1), Voter(2), Voter(3)])


def test_a_sole_voter_leads_at_once_and_remembers_it_before_it_writes() -> None:
    raft = Raft(1, ALONE, ElectionState(), -1)
    assert raft.start() == [SaveElection(ElectionState(1, 1)), AppendLeaderChange(1, (1,))]
    assert (raft.role, raft.epoch, raft.leader) == (Role.LEADER, 1, 1)
    assert raft.high_watermark == -1


def test_each_start_opens_a_new_epoch() -> None:
    raft = Raft(1, ALONE, ElectionState(4, 1), 4)
    assert raft.role is Role.RESIGNED
    raft.start()
    assert raft.epoch == 5


def test_an_epoch_in_the_log_counts_even_if_the_vote_was_lost() -> None:
    raft = Raft(1, ALONE, ElectionState(), 7)
    raft.start()
    assert raft.epoch == 8


def test_one_of_several_voters_waits_for_the_others() -> None:
    raft = Raft(1, THREE, ElectionState(), -1)
    assert raft.start() == []
    assert raft.role is Role.UNATTACHED


def test_nothing_is_committed_before_a_record_of_the_own_epoch_is_durable() -> None:
    raft = Raft(1, ALONE, ElectionState(1, 1), 1)
    raft.start()
    raft.epoch_began(10)
    assert raft.synced(1, 10) == []
    assert raft.synced(1, 11) == [Commit(11)]
    assert raft.high_watermark == 11


def test_the_high_watermark_never_goes_back() -> None:
    raft = Raft(1, ALONE, ElectionState(), -1)
    raft.start()
    raft.epoch_began(0)
    assert raft.synced(1, 5) == [Commit(5)]
    assert raft.synced(1, 5) == []
    assert raft.synced(1, 3) == []
    assert raft.high_watermark == 5


def test_what_a_stranger_says_is_durable_does_not_count() -> None:
    raft = Raft(1, ALONE, ElectionState(), -1)
    raft.start()
    raft.epoch_began(0)
    assert raft.synced(9, 5) == []


def test_a_leader_that_stops_does_not_commit_any_more() -> None:
    raft = Raft(1, ALONE, ElectionState(), -1)
    raft.start()
    raft.epoch_began(0)
    raft.stop()
    assert raft.synced(1, 5) == []
    with pytest.raises(InvariantViolated):
        raft.epoch_began(5)


def test_the_vote_is_written_as_kafka_writes_it_with_static_voters() -> None:
    data = encode(ElectionState(2, 1), ALONE)
    assert data == (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    assert decode(data) == ElectionState(2, 1)


def test_the_vote_is_written_as_kafka_writes_it_with_dynamic_voters() -> None:
    state = ElectionState(3, -1, 1, b"v" * 16)
    data = encode(state, Voters({1: Voter(1, b"v" * 16)}, 1))
    assert data == (
        b'{"leaderId":-1,"leaderEpoch":3,"votedId":1,'
        b'"votedDirectoryId":"dnZ2dnZ2dnZ2dnZ2dnZ2dg","data_version":1}'
    )
    assert decode(data) == state


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"data_version":7}',
        b'{"leaderId":"x","leaderEpoch":2,"votedId":-1,"data_version":0}',
    ],
)
def test_a_vote_that_cannot_be_read_is_never_guessed(data: bytes) -> None:
    with pytest.raises(CorruptElectionState):
        decode(data)

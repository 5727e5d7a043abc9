"""The file in which a voter keeps its vote."""

from __future__ import annotations

import pytest

from penstock.raft.election_state import (
    CorruptElectionState,
    ElectionState,
    decode,
    encode,
)
from penstock.raft.voters import Voter, Voters, static_voters

ALONE = static_voters([Voter(1)])


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

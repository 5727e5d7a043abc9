"""Changes of the voters as Kafka's messages carry them, and what no leader may be asked."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.metadata.cluster import Endpoint
from penstock.metadata.levels import LevelRange
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.add_raft_voter import AddRaftVoterRequest, Listener
from penstock.protocol.generated.api_versions import ApiVersionsResponse, SupportedFeatureKey
from penstock.protocol.registry import API
from penstock.raft.messages import (
    AddVoter,
    Change,
    ChangeReply,
    Probe,
    ProbeReply,
    RemoveVoter,
    Replica,
    UpdateVoter,
)
from penstock.raft.voters import Voter
from penstock.raft.wire_voters import (
    InvalidChange,
    change_of,
    change_reply,
    change_request,
    change_response,
    probe_reply,
)

CLUSTER = "cluster"
DISK = b"a disk.........."
VOTER = Voter(4, DISK, (Endpoint("CONTROLLER", "four", 9093, 0), Endpoint("OTHER", "::1", 9094, 0)))


def carried(message: Any) -> Any:
    """As it comes out of the wire, in its newest version."""
    version = type(message).VERSIONS[-1]
    return type(message).read(message.encode(version), version)[0]


@pytest.mark.parametrize(
    "ask",
    [
        AddVoter(VOTER),
        AddVoter(VOTER, when_committed=False),
        RemoveVoter(Replica(4, DISK)),
        UpdateVoter(7, VOTER._replace(kraft_versions=LevelRange(0, 3))),
    ],
)
def test_a_change_arrives_as_it_was_asked_for(ask: Change) -> None:
    assert change_of(CLUSTER, "CONTROLLER", carried(change_request(CLUSTER, ask))) == ask


@pytest.mark.parametrize(
    ("ask", "reply"),
    [
        (AddVoter(VOTER), ChangeReply()),
        (AddVoter(VOTER), ChangeReply(-1, -1, ErrorCode.DUPLICATE_VOTER, "It votes.")),
        (RemoveVoter(Replica(4, DISK)), ChangeReply(-1, -1, ErrorCode.VOTER_NOT_FOUND, "Who?")),
        (UpdateVoter(7, VOTER), ChangeReply(8, 2, ErrorCode.FENCED_LEADER_EPOCH)),
    ],
)
def test_an_answer_arrives_as_it_was_given(ask: Change, reply: ChangeReply) -> None:
    request = change_request(CLUSTER, ask)
    assert change_reply(carried(change_response(request, reply))) == reply


def test_who_shall_vote_is_asked_for_its_versions() -> None:
    request = change_request(CLUSTER, Probe(VOTER))
    assert request.API_KEY in API
    spoken = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    assert probe_reply(ApiVersionsResponse(supported_features=[spoken])) == ProbeReply(
        LevelRange(0, 1)
    )
    assert probe_reply(ApiVersionsResponse()).kraft_versions is None


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"voter_id": -1}, ErrorCode.INVALID_REQUEST),
        ({"voter_directory_id": bytes(16)}, ErrorCode.INVALID_REQUEST),
        ({"listeners": []}, ErrorCode.INVALID_REQUEST),
        ({"listeners": [Listener(name="OTHER", host="a", port=1)]}, ErrorCode.INVALID_REQUEST),
        ({"listeners": [Listener(name="CONTROLLER", host="a", port=0)]}, ErrorCode.INVALID_REQUEST),
        (
            {"listeners": [Listener(name="CONTROLLER", host="a b", port=1)]},
            ErrorCode.INVALID_REQUEST,
        ),
        (
            {"listeners": [Listener(name="CONTROLLER", host="a" * 300, port=1)]},
            ErrorCode.INVALID_REQUEST,
        ),
        (
            {"listeners": [Listener(name="CONTROLLER", host="a", port=1)] * 17},
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_what_no_leader_could_do_is_refused_before_it_hears_of_it(
    fault: dict[str, Any], error: ErrorCode
) -> None:
    request = change_request(CLUSTER, AddVoter(VOTER))
    assert isinstance(request, AddRaftVoterRequest)
    for name, value in fault.items():
        setattr(request, name, value)
    with pytest.raises(InvalidChange) as refused:
        change_of(CLUSTER, "CONTROLLER", request)
    assert refused.value.error is error


def test_the_address_that_the_others_use_comes_first() -> None:
    turned = VOTER._replace(endpoints=VOTER.endpoints[::-1])
    ask = change_of(CLUSTER, "CONTROLLER", change_request(CLUSTER, AddVoter(turned)))
    assert isinstance(ask, AddVoter) and ask.voter == VOTER

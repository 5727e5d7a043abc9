"""Changes of the voters in Kafka's own messages, and back."""

from __future__ import annotations

from typing import Any

from penstock.metadata.cluster import Endpoint
from penstock.metadata.levels import KRAFT_VERSION, LevelRange
from penstock.model.config.endpoints import endpoint_of
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.protocol.generated import add_raft_voter as adds
from penstock.protocol.generated import remove_raft_voter as removes
from penstock.protocol.generated import update_raft_voter as updates
from penstock.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.message import Message
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
from penstock.version import VERSION

ADD_MS_MAX = 30_000
ENDPOINTS_MAX = 16
"""Of one voter: all of them are copied into every record that names the voters."""

HOST_SIZE_MAX = 255


class InvalidChange(Exception):
    """A request that no leader could carry out."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


# -- asking -------------------------------------------------------------------------------------


def change_request(cluster_id: str, ask: Change | Probe) -> Message:
    """The message that asks the leader for a change, or a voter to be whether it can be one."""
    if isinstance(ask, Probe):
        return ApiVersionsRequest(client_software_name="penstock", client_software_version=VERSION)
    if isinstance(ask, RemoveVoter):
        return removes.RemoveRaftVoterRequest(
            cluster_id=cluster_id,
            voter_id=ask.replica.id,
            voter_directory_id=ask.replica.directory,
        )
    voter = ask.voter
    if isinstance(ask, AddVoter):
        return adds.AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=ADD_MS_MAX,
            voter_id=voter.id,
            voter_directory_id=voter.directory,
            listeners=[
                adds.Listener(name=e.name, host=e.host, port=e.port) for e in voter.endpoints
            ],
            ack_when_committed=ask.when_committed,
        )
    return updates.UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=ask.epoch,
        voter_id=voter.id,
        voter_directory_id=voter.directory,
        listeners=[
            updates.Listener(name=e.name, host=e.host, port=e.port) for e in voter.endpoints
        ],
        kraft_version_feature=updates.KRaftVersionFeature(
            min_supported_version=voter.kraft_versions.first,
            max_supported_version=voter.kraft_versions.last,
        ),
    )


def probe_reply(response: ApiVersionsResponse) -> ProbeReply:
    for feature in response.supported_features or ():
        if feature.name == KRAFT_VERSION:
            span = LevelRange(feature.min_version, feature.max_version)
            return ProbeReply(span, ErrorCode(response.error_code))
    return ProbeReply(None, ErrorCode(response.error_code))


def change_reply(response: Any) -> ChangeReply:
    error = ErrorCode(response.error_code)
    if isinstance(response, updates.UpdateRaftVoterResponse):
        leader = response.current_leader
        if leader is None:
            return ChangeReply(error=error)
        return ChangeReply(leader.leader_epoch, leader.leader_id, error)
    return ChangeReply(error=error, message=response.error_message)


# -- answering ----------------------------------------------------------------------------------


def change_of(cluster_id: str, listener: str | None, request: Any) -> Change:
    """What a request asks for; `listener` is the one on which the voters talk to each other.

    InvalidChange if nobody could do that.
    """
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        raise InvalidChange(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"This cluster's id is {cluster_id}."
        )
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        raise InvalidChange(
            ErrorCode.INVALID_REQUEST, "A voter has an id, and a directory with an id."
        )
    if isinstance(request, removes.RemoveRaftVoterRequest):
        return RemoveVoter(Replica(request.voter_id, request.voter_directory_id))
    endpoints = _endpoints_of(request, listener)
    voter = Voter(request.voter_id, request.voter_directory_id, endpoints)
    if isinstance(request, adds.AddRaftVoterRequest):
        return AddVoter(voter, request.ack_when_committed)
    span = LevelRange(
        request.kraft_version_feature.min_supported_version,
        request.kraft_version_feature.max_supported_version,
    )
    if not 0 <= span.first <= span.last:
        raise InvalidChange(ErrorCode.INVALID_REQUEST, "No version is supported.")
    return UpdateVoter(request.current_leader_epoch, voter._replace(kraft_versions=span))


def _endpoints_of(request: Any, listener: str | None) -> tuple[Endpoint, ...]:
    told = request.listeners
    possible = all(
        each.port > 0 and len(each.host) <= HOST_SIZE_MAX and endpoint_of(_text(each)) is not None
        for each in told
    )
    if not possible or not 0 < len(told) <= ENDPOINTS_MAX:
        raise InvalidChange(ErrorCode.INVALID_REQUEST, "A voter has addresses, and not too many.")
    # The one that the others use comes first: it is what they will connect to.
    ordered = sorted(told, key=lambda each: each.name.upper() != (listener or each.name.upper()))
    if listener is not None and ordered[0].name.upper() != listener:
        raise InvalidChange(
            ErrorCode.INVALID_REQUEST, f"The voter has no address for the listener {listener}."
        )
    return tuple(Endpoint(each.name.upper(), each.host, each.port, 0) for each in ordered)


def _text(listener: Any) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{host}:{listener.port}"


def change_response(request: Any, reply: ChangeReply, leader: Endpoint | None = None) -> Message:
    """The answer to a request; `leader` is where the leader can be reached."""
    if isinstance(request, updates.UpdateRaftVoterRequest):
        return updates.UpdateRaftVoterResponse(
            error_code=reply.error,
            current_leader=updates.CurrentLeader(
                leader_id=reply.leader,
                leader_epoch=reply.epoch,
                host=leader.host if leader else "",
                port=leader.port if leader else 0,
            ),
        )
    kind: type[Any] = removes.RemoveRaftVoterResponse
    if isinstance(request, adds.AddRaftVoterRequest):
        kind = adds.AddRaftVoterResponse
    failed = reply.error is not ErrorCode.NONE
    message: Message = kind(
        error_code=reply.error,
        error_message=(reply.message or reply.error.message) if failed else None,
    )
    return message


CHANGES = (
    adds.AddRaftVoterRequest,
    removes.RemoveRaftVoterRequest,
    updates.UpdateRaftVoterRequest,
)

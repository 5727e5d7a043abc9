"""The quorum's conversations in Kafka's own messages, and back.

All of them can name many topics and partitions, and always name one: the metadata log. What names
another, or another cluster, is refused before the machine hears of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.metadata.cluster import Endpoint
from penstock.model.errors import ErrorCode
from penstock.model.ids import METADATA_TOPIC_ID, NO_NODE
from penstock.protocol.generated import begin_quorum_epoch as begins
from penstock.protocol.generated import end_quorum_epoch as ends
from penstock.protocol.generated import fetch as fetches
from penstock.protocol.generated import fetch_snapshot as snapshots
from penstock.protocol.generated import vote as votes
from penstock.protocol.message import Message
from penstock.raft.messages import (
    Ask,
    BeginEpoch,
    Change,
    EndEpoch,
    EpochReply,
    Fetch,
    FetchReply,
    FetchSnapshot,
    MemberAsk,
    MemberReply,
    Position,
    Probe,
    Replica,
    Reply,
    SnapshotReply,
    Vote,
    VoteReply,
)
from penstock.raft.snapshots import SnapshotId
from penstock.raft.wire_voters import change_reply, change_request, probe_reply
from penstock.storage.names import METADATA_TOPIC

FETCH_WAIT_MS = 500
FETCH_BYTES_MAX = 8 * 1024 * 1024
UNKNOWN_WATERMARK = (1 << 63) - 1
"""What a follower says that is too old to say how far it knows the log to be committed."""


class Refused(Exception):
    """A request that names what this quorum is not."""

    def __init__(self, error: ErrorCode, *, whole: bool = True) -> None:
        super().__init__(error.name)
        self.error = error
        self.whole = whole
        """Whether the request as such is wrong, or only the partition that it names."""


class Envelope(NamedTuple):
    """What every message of one node carries."""

    cluster_id: str
    own: Replica
    endpoints: tuple[Endpoint, ...] = ()


# -- asking -------------------------------------------------------------------------------------


def request_of(envelope: Envelope, to: Replica, ask: Ask) -> Message:
    """The message that asks `to`."""
    if isinstance(ask, Vote):
        return _vote_request(envelope, to, ask)
    if isinstance(ask, BeginEpoch):
        return _begin_request(envelope, to, ask)
    if isinstance(ask, EndEpoch):
        return _end_request(envelope, ask)
    if isinstance(ask, FetchSnapshot):
        return _snapshot_request(envelope, ask)
    if isinstance(ask, Fetch):
        return _fetch_request(envelope, ask)
    return change_request(envelope.cluster_id, ask)


def _vote_request(envelope: Envelope, to: Replica, ask: Vote) -> Message:
    partition = votes.VoteRequestPartitionData(
        replica_epoch=ask.epoch,
        replica_id=ask.candidate.id,
        replica_directory_id=ask.candidate.directory,
        voter_directory_id=to.directory,
        last_offset_epoch=ask.log.epoch,
        last_offset=ask.log.end,
        pre_vote=ask.pre,
    )
    return votes.VoteRequest(
        cluster_id=envelope.cluster_id,
        voter_id=to.id,
        topics=[votes.VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def _begin_request(envelope: Envelope, to: Replica, ask: BeginEpoch) -> Message:
    partition = begins.BeginQuorumEpochRequestPartitionData(
        voter_directory_id=to.directory, leader_id=ask.leader, leader_epoch=ask.epoch
    )
    topic = begins.BeginQuorumEpochRequestTopicData(
        topic_name=METADATA_TOPIC, partitions=[partition]
    )
    return begins.BeginQuorumEpochRequest(
        cluster_id=envelope.cluster_id,
        voter_id=to.id,
        topics=[topic],
        leader_endpoints=[
            begins.LeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in envelope.endpoints
        ],
    )


def _end_request(envelope: Envelope, ask: EndEpoch) -> Message:
    partition = ends.EndQuorumEpochRequestPartitionData(
        leader_id=ask.leader,
        leader_epoch=ask.epoch,
        preferred_successors=[each.id for each in ask.successors],
        preferred_candidates=[
            ends.ReplicaInfo(candidate_id=each.id, candidate_directory_id=each.directory)
            for each in ask.successors
        ],
    )
    topic = ends.EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return ends.EndQuorumEpochRequest(
        cluster_id=envelope.cluster_id,
        topics=[topic],
        leader_endpoints=[
            ends.LeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in envelope.endpoints
        ],
    )


def _fetch_request(envelope: Envelope, ask: Fetch) -> Message:
    partition = fetches.FetchPartition(
        current_leader_epoch=ask.epoch,
        fetch_offset=ask.log.end,
        last_fetched_epoch=ask.log.epoch,
        log_start_offset=-1,
        partition_max_bytes=FETCH_BYTES_MAX,
        replica_directory_id=ask.replica.directory,
        high_watermark=ask.high_watermark,
    )
    topic = fetches.FetchTopic(
        topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    return fetches.FetchRequest(
        cluster_id=envelope.cluster_id,
        replica_state=fetches.ReplicaState(replica_id=ask.replica.id),
        max_wait_ms=FETCH_WAIT_MS,
        max_bytes=FETCH_BYTES_MAX,
        topics=[topic],
    )


def _snapshot_request(envelope: Envelope, ask: FetchSnapshot) -> Message:
    wanted = snapshots.FetchSnapshotRequestPartitionSnapshot(
        current_leader_epoch=ask.epoch,
        snapshot_id=snapshots.FetchSnapshotRequestSnapshotId(
            end_offset=ask.snapshot.end, epoch=ask.snapshot.epoch
        ),
        position=ask.position,
        replica_directory_id=ask.replica.directory,
    )
    topic = snapshots.FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=[wanted])
    return snapshots.FetchSnapshotRequest(
        cluster_id=envelope.cluster_id,
        replica_id=ask.replica.id,
        max_bytes=FETCH_BYTES_MAX,
        topics=[topic],
    )


def reply_of(ask: Ask, response: Any) -> Reply:
    """What the machine hears of an answer. ValueError if it says nothing of the metadata log."""
    if isinstance(ask, Fetch):
        return _fetch_reply(response)
    if isinstance(ask, FetchSnapshot):
        return _snapshot_reply(response)
    if isinstance(ask, Probe):
        return probe_reply(response)
    if isinstance(ask, Change):
        return change_reply(response)
    kind = VoteReply if isinstance(ask, Vote) else EpochReply
    if response.error_code:
        return kind(-1, error=ErrorCode(response.error_code))
    (part,) = _only(response.topics).partitions
    error = ErrorCode(part.error_code)
    if isinstance(ask, Vote):
        return VoteReply(part.leader_epoch, part.leader_id, part.vote_granted, error)
    return EpochReply(part.leader_epoch, part.leader_id, error)


def _fetch_reply(response: fetches.FetchResponse) -> FetchReply:
    if response.error_code:
        return FetchReply(-1, error=ErrorCode(response.error_code))
    (part,) = _only(response.responses).partitions
    leader = part.current_leader
    diverging, snapshot = part.diverging_epoch, part.snapshot_id
    records = part.records
    return FetchReply(
        leader.leader_epoch if leader else -1,
        leader.leader_id if leader else NO_NODE,
        part.high_watermark,
        bytes(records) if isinstance(records, (bytes, bytearray, memoryview)) else b"",
        Position(diverging.epoch, diverging.end_offset) if diverging else None,
        SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot else None,
        ErrorCode(part.error_code),
    )


def _snapshot_reply(response: snapshots.FetchSnapshotResponse) -> SnapshotReply:
    if response.error_code:
        return SnapshotReply(-1, error=ErrorCode(response.error_code))
    (part,) = _only(response.topics).partitions
    leader = part.current_leader
    return SnapshotReply(
        leader.leader_epoch if leader else -1,
        leader.leader_id if leader else NO_NODE,
        part.size,
        bytes(part.unaligned_records or b""),
        ErrorCode(part.error_code),
    )


def _only(topics: list[Any]) -> Any:
    (topic,) = topics  # ValueError if there are none, or several
    return topic


# -- answering ----------------------------------------------------------------------------------


def ask_of(envelope: Envelope, request: Any) -> MemberAsk:
    """What a request asks. Refused if it is not for this node, or not about this log."""
    if request.cluster_id is not None and request.cluster_id != envelope.cluster_id:
        raise Refused(ErrorCode.INCONSISTENT_CLUSTER_ID)
    part = _partition_of(request)
    if not _is_possible(request, part):
        raise Refused(ErrorCode.INVALID_REQUEST, whole=False)
    if isinstance(request, votes.VoteRequest):
        _check_voter(envelope, request.voter_id, part.voter_directory_id)
        return Vote(
            part.replica_epoch,
            Replica(part.replica_id, part.replica_directory_id),
            Position(part.last_offset_epoch, part.last_offset),
            part.pre_vote,
        )
    if isinstance(request, begins.BeginQuorumEpochRequest):
        _check_voter(envelope, request.voter_id, part.voter_directory_id)
        return BeginEpoch(part.leader_epoch, part.leader_id)
    if isinstance(request, ends.EndQuorumEpochRequest):
        named = [
            Replica(it.candidate_id, it.candidate_directory_id) for it in part.preferred_candidates
        ]
        successors = named or [Replica(it) for it in part.preferred_successors]
        return EndEpoch(part.leader_epoch, part.leader_id, tuple(successors))
    if isinstance(request, snapshots.FetchSnapshotRequest):
        return FetchSnapshot(
            part.current_leader_epoch,
            Replica(request.replica_id, part.replica_directory_id),
            SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
            part.position,
        )
    return _fetch_of(request, part)


def _fetch_of(request: fetches.FetchRequest, part: fetches.FetchPartition) -> Fetch:
    state = request.replica_state
    replica = state.replica_id if state is not None else request.replica_id
    return Fetch(
        part.current_leader_epoch,
        Replica(replica, part.replica_directory_id),
        Position(part.last_fetched_epoch, part.fetch_offset),
        part.high_watermark,
    )


def _partition_of(request: Any) -> Any:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        raise Refused(ErrorCode.INVALID_REQUEST)
    topic = request.topics[0]
    if isinstance(request, fetches.FetchRequest):
        known = topic.topic_id == METADATA_TOPIC_ID or topic.topic == METADATA_TOPIC
        number = topic.partitions[0].partition
    elif isinstance(request, snapshots.FetchSnapshotRequest):
        known = topic.name == METADATA_TOPIC
        number = topic.partitions[0].partition
    else:
        known = topic.topic_name == METADATA_TOPIC
        number = topic.partitions[0].partition_index
    if not known or number != 0:
        if isinstance(request, snapshots.FetchSnapshotRequest):
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, whole=False)
        raise Refused(ErrorCode.INVALID_REQUEST)
    return topic.partitions[0]


def _is_possible(request: Any, part: Any) -> bool:
    """Whether any member could say this: nothing is negative, no log is ahead of its epoch."""
    if isinstance(request, votes.VoteRequest):
        ahead = part.last_offset_epoch - part.replica_epoch
        numbers = (part.last_offset_epoch, part.last_offset, part.replica_id)
        return bool(min(numbers) >= 0 and ahead < (1 if part.pre_vote else 0))
    if isinstance(request, fetches.FetchRequest):
        ahead = part.last_fetched_epoch - part.current_leader_epoch
        numbers = (part.last_fetched_epoch, part.fetch_offset, request.max_wait_ms)
        return bool(min(numbers) >= 0 >= ahead)
    if isinstance(request, snapshots.FetchSnapshotRequest):
        return True  # a position that cannot be has an error of its own
    return bool(min(part.leader_id, part.leader_epoch) >= 0)


def _check_voter(envelope: Envelope, voter: int, directory: bytes) -> None:
    """A request for another voter, or for the disk that this one had before, is not for us."""
    if voter != NO_NODE and not envelope.own.matches(Replica(voter, directory)):
        raise Refused(ErrorCode.INVALID_VOTER_KEY, whole=False)


def response_to(request: Any, reply: MemberReply, leader: Endpoint | None = None) -> Message:
    """The answer to a request; `leader` is where the leader that it names can be reached."""
    if isinstance(reply, FetchReply):
        return _fetch_response(reply, leader)
    if isinstance(reply, SnapshotReply):
        return _snapshot_response(request, reply, leader)
    if isinstance(reply, VoteReply):
        return votes.VoteResponse(
            topics=[
                votes.VoteResponseTopicData(
                    topic_name=METADATA_TOPIC,
                    partitions=[
                        votes.VoteResponsePartitionData(
                            error_code=reply.error,
                            leader_id=reply.leader,
                            leader_epoch=reply.epoch,
                            vote_granted=reply.granted,
                        )
                    ],
                )
            ],
            node_endpoints=_endpoints(votes.NodeEndpoint, reply.leader, leader),
        )
    return _epoch_response(request, reply, leader)


def _epoch_response(request: Any, reply: EpochReply, leader: Endpoint | None) -> Message:
    if isinstance(request, begins.BeginQuorumEpochRequest):
        begun = begins.BeginQuorumEpochResponsePartitionData(
            error_code=reply.error, leader_id=reply.leader, leader_epoch=reply.epoch
        )
        return begins.BeginQuorumEpochResponse(
            topics=[
                begins.BeginQuorumEpochResponseTopicData(
                    topic_name=METADATA_TOPIC, partitions=[begun]
                )
            ],
            node_endpoints=_endpoints(begins.NodeEndpoint, reply.leader, leader),
        )
    ended = ends.EndQuorumEpochResponsePartitionData(
        error_code=reply.error, leader_id=reply.leader, leader_epoch=reply.epoch
    )
    return ends.EndQuorumEpochResponse(
        topics=[
            ends.EndQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=[ended])
        ],
        node_endpoints=_endpoints(ends.NodeEndpoint, reply.leader, leader),
    )


def _fetch_response(reply: FetchReply, leader: Endpoint | None) -> Message:
    diverging, snapshot = reply.diverging, reply.snapshot
    part = fetches.PartitionData(
        error_code=reply.error,
        high_watermark=reply.high_watermark,
        diverging_epoch=(
            fetches.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end)
            if diverging
            else None
        ),
        current_leader=fetches.LeaderIdAndEpoch(leader_id=reply.leader, leader_epoch=reply.epoch),
        snapshot_id=(
            fetches.SnapshotId(end_offset=snapshot.end, epoch=snapshot.epoch) if snapshot else None
        ),
        records=reply.records,
    )
    return fetches.FetchResponse(
        responses=[
            fetches.FetchableTopicResponse(
                topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[part]
            )
        ],
        node_endpoints=_endpoints(fetches.NodeEndpoint, reply.leader, leader),
    )


def _snapshot_response(request: Any, reply: SnapshotReply, leader: Endpoint | None) -> Message:
    asked = request.topics[0].partitions[0]
    part = snapshots.FetchSnapshotResponsePartitionSnapshot(
        error_code=reply.error,
        snapshot_id=snapshots.FetchSnapshotResponseSnapshotId(
            end_offset=asked.snapshot_id.end_offset, epoch=asked.snapshot_id.epoch
        ),
        current_leader=snapshots.LeaderIdAndEpoch(leader_id=reply.leader, leader_epoch=reply.epoch),
        size=reply.size,
        position=asked.position,
        unaligned_records=reply.data,
    )
    return snapshots.FetchSnapshotResponse(
        topics=[
            snapshots.FetchSnapshotResponseTopicSnapshot(name=METADATA_TOPIC, partitions=[part])
        ],
        node_endpoints=_endpoints(snapshots.NodeEndpoint, reply.leader, leader),
    )


_KINDS: dict[type, tuple[type[Any], type[Any]]] = {
    votes.VoteRequest: (votes.VoteResponse, VoteReply),
    begins.BeginQuorumEpochRequest: (begins.BeginQuorumEpochResponse, EpochReply),
    ends.EndQuorumEpochRequest: (ends.EndQuorumEpochResponse, EpochReply),
    fetches.FetchRequest: (fetches.FetchResponse, FetchReply),
    snapshots.FetchSnapshotRequest: (snapshots.FetchSnapshotResponse, SnapshotReply),
}


def refusal_of(request: Any, refused: Refused, epoch: int = -1, leader: int = NO_NODE) -> Message:
    """The answer to a request that is not for us; who sent it may yet learn of a later epoch."""
    response, reply = _KINDS[type(request)]
    if refused.whole:
        message: Message = response(error_code=refused.error)
        return message
    return response_to(request, reply(epoch, leader, error=refused.error))


def _endpoints(kind: type[Any], node: int, endpoint: Endpoint | None) -> list[Any]:
    if node == NO_NODE or endpoint is None:
        return []
    return [kind(node_id=node, host=endpoint.host, port=endpoint.port)]

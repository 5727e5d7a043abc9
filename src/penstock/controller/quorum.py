"""DescribeQuorum: who votes, who leads, and how far everybody is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.topic_names import METADATA_TOPIC
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)

if TYPE_CHECKING:
    from penstock.metadata.cluster import Endpoint
    from penstock.metadata.image import MetadataImage
    from penstock.raft.driver import RaftDriver
    from penstock.raft.progress import ReplicaProgress


def describe_quorum(
    raft: RaftDriver, image: MetadataImage, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """The answer of the node that leads the metadata log, for the one partition that there is."""
    asked = [(t.topic_name, p.partition_index) for t in request.topics for p in t.partitions]
    if asked != [(METADATA_TOPIC, 0)]:
        return _unknown(request)
    replicas = raft.replicas()
    partition = DescribeQuorumResponsePartitionData(
        partition_index=0,
        leader_id=raft.leader,
        leader_epoch=raft.epoch,
        high_watermark=raft.high_watermark,
        current_voters=[_state(progress) for progress in replicas if progress.is_voter],
        observers=[_state(progress) for progress in replicas if not progress.is_voter],
    )
    topic = DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return DescribeQuorumResponse(topics=[topic], nodes=_nodes(raft, image))


def _state(progress: ReplicaProgress) -> ReplicaState:
    return ReplicaState(
        replica_id=progress.replica.id,
        replica_directory_id=progress.replica.directory,
        log_end_offset=progress.end,
        last_fetch_timestamp=progress.fetched_at,
        last_caught_up_timestamp=progress.caught_up_at,
    )


def _nodes(raft: RaftDriver, image: MetadataImage) -> list[Node]:
    nodes = []
    for voter in raft.voters.by_id.values():
        known = image.cluster.controllers.get(voter.id)
        endpoints: tuple[Endpoint, ...] = voter.endpoints or (known.endpoints if known else ())
        nodes.append(
            Node(
                node_id=voter.id,
                listeners=[Listener(name=e.name, host=e.host, port=e.port) for e in endpoints],
            )
        )
    return nodes


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponsePartitionData(
                        partition_index=partition.partition_index,
                        error_code=error,
                        error_message=error.message,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

"""The quorum behind a cluster: who votes on its metadata, who leads, and who is behind."""

from __future__ import annotations

from typing import Any

from penstock.cli.failure import Failure
from penstock.cli.output import Table
from penstock.cli.wire import Wire
from penstock.cli.wire_cluster import Cluster, check
from penstock.model.ids import uuid_of, uuid_text
from penstock.protocol.generated import add_raft_voter as adding
from penstock.protocol.generated import describe_cluster as clusters
from penstock.protocol.generated import describe_quorum as quorum
from penstock.protocol.generated import remove_raft_voter as removing

METADATA = "__cluster_metadata"


def described(wire: Wire) -> dict[str, Any]:
    """Leader, epoch, high watermark, and how far each voter and observer is."""
    topic = quorum.DescribeQuorumRequestTopicData(
        topic_name=METADATA,
        partitions=[quorum.DescribeQuorumRequestPartitionData(partition_index=0)],
    )
    told = wire.ask(quorum.DescribeQuorumRequest(topics=[topic]), quorum.DescribeQuorumResponse)
    check(told.error_code, "the quorum cannot be described", told.error_message)
    partition = told.topics[0].partitions[0]
    check(partition.error_code, "the quorum cannot be described", partition.error_message)
    newest = max((one.log_end_offset for one in partition.current_voters), default=0)
    where = {
        node.node_id: [f"{each.host}:{each.port}" for each in node.listeners] for node in told.nodes
    }
    return {
        "leader": partition.leader_id,
        "epoch": partition.leader_epoch,
        "high_watermark": partition.high_watermark,
        "voters": [_member(one, newest, where) for one in partition.current_voters],
        "observers": [_member(one, newest, where) for one in partition.observers],
    }


def _member(one: quorum.ReplicaState, newest: int, where: dict[int, list[str]]) -> dict[str, Any]:
    return {
        "id": one.replica_id,
        "directory": uuid_text(one.replica_directory_id) if any(one.replica_directory_id) else None,
        "listeners": where.get(one.replica_id, []),
        "log_end": one.log_end_offset,
        "lag": max(0, newest - one.log_end_offset),
        "last_fetch_ms": one.last_fetch_timestamp,
        "last_caught_up_ms": one.last_caught_up_timestamp,
    }


def tables(document: dict[str, Any]) -> list[Table]:
    columns = ("id", "role", "lag", "log_end", "listeners", "directory")
    rows = [
        [{**member, "role": _role(document, member, votes)}[column] for column in columns]
        for votes in (True, False)
        for member in document["voters" if votes else "observers"]
    ]
    headings = ("leader", "epoch", "high-watermark")
    summary = [document["leader"], document["epoch"], document["high_watermark"]]
    named = [column.replace("_", " ") for column in columns]
    return [Table(headings, [summary]), Table(named, rows)]


def _role(document: dict[str, Any], member: dict[str, Any], votes: bool) -> str:
    if not votes:
        return "observer"
    return "leader" if member["id"] == document["leader"] else "voter"


# -- voters come and go ---------------------------------------------------------------------------


def add_voter(cluster: Cluster, node_id: int, host: str, port: int, listener: str) -> None:
    """Let an observer vote; it must run, and copy the metadata by now."""
    found = described(cluster.anyone)
    if any(one["id"] == node_id for one in found["voters"]):
        return
    known = next((one for one in found["observers"] if one["id"] == node_id), None)
    if known is None or known["directory"] is None:
        raise Failure(
            f"node {node_id} does not follow the metadata, or does not say on which disk",
            "start it with process.roles=controller and controller.quorum.bootstrap.servers",
        )
    request = adding.AddRaftVoterRequest(
        cluster_id=_cluster_id(cluster),
        timeout_ms=30_000,
        voter_id=node_id,
        voter_directory_id=uuid_of(known["directory"]),
        listeners=[adding.Listener(name=listener, host=host, port=port)],
    )
    told = cluster.anyone.ask(request, adding.AddRaftVoterResponse)
    check(told.error_code, f"node {node_id} does not vote", told.error_message)


def remove_voter(cluster: Cluster, node_id: int) -> bool:
    """Take a vote away; False if the node had none."""
    voter = next((one for one in described(cluster.anyone)["voters"] if one["id"] == node_id), None)
    if voter is None:
        return False
    if voter["directory"] is None:
        raise Failure(
            f"node {node_id} votes because controller.quorum.voters says so",
            "take it out of that key on every node, and restart them one by one",
        )
    request = removing.RemoveRaftVoterRequest(
        cluster_id=_cluster_id(cluster),
        voter_id=node_id,
        voter_directory_id=uuid_of(voter["directory"]),
    )
    told = cluster.anyone.ask(request, removing.RemoveRaftVoterResponse)
    check(told.error_code, f"node {node_id} votes still", told.error_message)
    return True


def _cluster_id(cluster: Cluster) -> str:
    told = cluster.anyone.ask(clusters.DescribeClusterRequest(), clusters.DescribeClusterResponse)
    check(told.error_code, "the cluster cannot be described", told.error_message)
    return told.cluster_id

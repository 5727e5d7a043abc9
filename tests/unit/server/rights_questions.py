"""Requests that name something mine, seen, theirs and absent, in every version of their APIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.model.ids import ZERO_UUID
from penstock.protocol.generated import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    delete_records,
    describe_groups,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from penstock.protocol.message import Message
from tests.unit.server.asking import batch
from tests.unit.server.rights_scene import TOPICS, TRANSACTIONS, Make

Ids = Mapping[str, bytes]


def _id(ids: Ids, name: str, version: int, since: int) -> bytes:
    return topic_id(ids, name) if version >= since else ZERO_UUID


def topic_id(ids: Ids, name: str) -> bytes:
    """Of a topic; one of its own for each that does not exist."""
    return ids.get(name, name.encode().ljust(16, b"?"))


# -- records --------------------------------------------------------------------------------------


def producing(
    transactional_id: str | None = None,
    acks: int = -1,
    names: tuple[str, ...] = TOPICS,
    **options: Any,
) -> Make:
    def make(version: int, ids: Ids) -> Message:
        return produce.ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=5000,
            topic_data=[
                produce.TopicProduceData(
                    name=name if version < 13 else "",
                    topic_id=_id(ids, name, version, 13),
                    partition_data=[
                        produce.PartitionProduceData(
                            index=index,
                            records=memoryview(batch(1, **options)),
                        )
                        for index in (0, 1)
                    ],
                )
                for name in names
            ],
        )

    return make


def fetching(replica_id: int = -1, topics: tuple[str, ...] = TOPICS, **options: Any) -> Make:
    def make(version: int, ids: Ids) -> Message:
        request = fetch.FetchRequest(
            max_bytes=1 << 20,
            topics=[
                fetch.FetchTopic(
                    topic=name if version < 13 else "",
                    topic_id=_id(ids, name, version, 13),
                    partitions=[
                        fetch.FetchPartition(
                            partition=index, fetch_offset=0, partition_max_bytes=1 << 20
                        )
                        for index in (0, 1)
                    ],
                )
                for name in topics
            ],
            **options,
        )
        if version < 15:
            request.replica_id = replica_id
        elif replica_id != -1:
            request.replica_state = fetch.ReplicaState(replica_id=replica_id, replica_epoch=1)
        return request

    return make


def listing_offsets(_version: int, _ids: Ids) -> Message:
    return list_offsets.ListOffsetsRequest(
        replica_id=-1,
        topics=[
            list_offsets.ListOffsetsTopic(
                name=name,
                partitions=[
                    list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1)
                    for index in (0, 1, 1)
                ],
            )
            for name in TOPICS
        ],
    )


def asking_epochs(_version: int, _ids: Ids) -> Message:
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopic(
                topic=name,
                partitions=[
                    offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
                ],
            )
            for name in TOPICS
        ]
    )


def deleting_records(_version: int, _ids: Ids) -> Message:
    return delete_records.DeleteRecordsRequest(
        timeout_ms=5000,
        topics=[
            delete_records.DeleteRecordsTopic(
                name=name,
                partitions=[
                    delete_records.DeleteRecordsPartition(partition_index=index, offset=1)
                    for index in (0, 1)
                ],
            )
            for name in TOPICS
        ],
    )


def describing_producers(_version: int, _ids: Ids) -> Message:
    return describe_producers.DescribeProducersRequest(
        topics=[
            describe_producers.TopicRequest(name=name, partition_indexes=[0, 1]) for name in TOPICS
        ]
    )


# -- topics ---------------------------------------------------------------------------------------


def asking_metadata(names: tuple[str, ...] | None = TOPICS, creating: bool = False) -> Make:
    def make(version: int, _ids: Ids) -> Message:
        request = metadata.MetadataRequest(
            topics=None
            if names is None
            else [metadata.MetadataRequestTopic(name=name) for name in names]
        )
        if version == 0 and names is None:
            request.topics = []
        if version >= 4:
            request.allow_auto_topic_creation = creating
        if version >= 8:
            request.include_topic_authorized_operations = True
        if 8 <= version <= 10:
            request.include_cluster_authorized_operations = True
        return request

    return make


def asking_metadata_by_id(_version: int, ids: Ids) -> Message:
    return metadata.MetadataRequest(
        topics=[
            metadata.MetadataRequestTopic(name=None, topic_id=topic_id(ids, name))
            for name in ("mine", "seen", "theirs", "absent")
        ],
        include_topic_authorized_operations=True,
    )


def describing_topics(names: tuple[str, ...] = TOPICS, **options: Any) -> Make:
    return lambda _version, _ids: describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=[describe_topic_partitions.TopicRequest(name=name) for name in names], **options
    )


# -- groups ---------------------------------------------------------------------------------------


def finding(key_type: int, *keys: str) -> Make:
    def make(version: int, _ids: Ids) -> Message:
        kind: dict[str, Any] = {"key_type": key_type} if version else {}
        if version < 4:
            return find_coordinator.FindCoordinatorRequest(key=keys[0], **kind)
        return find_coordinator.FindCoordinatorRequest(coordinator_keys=list(keys), **kind)

    return make


def committing(group_id: str, names: tuple[str, ...] = TOPICS) -> Make:
    return lambda version, ids: offset_commit.OffsetCommitRequest(
        group_id=group_id,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=name if version < 10 else "",
                topic_id=_id(ids, name, version, 10),
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=1, committed_metadata=""
                    )
                    for index in (0, 9)
                ],
            )
            for name in names
        ],
    )


def fetching_offsets(*groups: str, names: tuple[str, ...] | None = TOPICS) -> Make:
    def make(version: int, ids: Ids) -> Message:
        if version < 8:
            return offset_fetch.OffsetFetchRequest(
                group_id=groups[0],
                topics=None
                if names is None
                else [
                    offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1])
                    for name in names
                ],
            )
        return offset_fetch.OffsetFetchRequest(
            groups=[
                offset_fetch.OffsetFetchRequestGroup(
                    group_id=each,
                    topics=None
                    if names is None
                    else [
                        offset_fetch.OffsetFetchRequestTopics(
                            name=name if version < 10 else "",
                            topic_id=_id(ids, name, version, 10),
                            partition_indexes=[0, 1],
                        )
                        for name in names
                    ],
                )
                for each in groups
            ]
        )

    return make


def deleting_offsets(group_id: str) -> Make:
    return lambda _version, _ids: offset_delete.OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            offset_delete.OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    offset_delete.OffsetDeleteRequestPartition(partition_index=index)
                    for index in (0, 9)
                ],
            )
            for name in TOPICS
        ],
    )


def listing_groups(_version: int, _ids: Ids) -> Message:
    return list_groups.ListGroupsRequest()


def deleting_groups(*groups: str) -> Make:
    return lambda _version, _ids: delete_groups.DeleteGroupsRequest(groups_names=list(groups))


def describing_groups(*groups: str) -> Make:
    return lambda version, _ids: describe_groups.DescribeGroupsRequest(
        groups=list(groups), include_authorized_operations=version >= 3
    )


def joining(group_id: str) -> Make:
    return lambda version, _ids: join_group.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000 if version else -1,
        member_id="nobody",
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def syncing(group_id: str) -> Make:
    def make(version: int, _ids: Ids) -> Message:
        request = sync_group.SyncGroupRequest(
            group_id=group_id, generation_id=1, member_id="nobody"
        )
        if version >= 5:
            request.protocol_type, request.protocol_name = "consumer", "range"
        return request

    return make


def beating(group_id: str) -> Make:
    return lambda _version, _ids: heartbeat.HeartbeatRequest(
        group_id=group_id, generation_id=1, member_id="nobody"
    )


def leaving(group_id: str) -> Make:
    def make(version: int, _ids: Ids) -> Message:
        if version < 3:
            return leave_group.LeaveGroupRequest(group_id=group_id, member_id="nobody")
        return leave_group.LeaveGroupRequest(
            group_id=group_id, members=[leave_group.MemberIdentity(member_id="nobody")]
        )

    return make


def subscribing(
    group_id: str, names: list[str] | None, member: str = "m", regex: str | None = None
) -> Make:
    return lambda _version, _ids: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=names,
        subscribed_topic_regex=regex,
        topic_partitions=[],
    )


def describing_consumers(*groups: str) -> Make:
    return lambda _version, _ids: consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=list(groups), include_authorized_operations=True
    )


# -- transactions ---------------------------------------------------------------------------------


def introducing(transactional_id: str | None, **options: Any) -> Make:
    return lambda _version, _ids: init_producer_id.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000, **options
    )


def adding(
    transactional_id: str,
    names: tuple[str, ...] = TOPICS,
    producer: tuple[int, int] = (4711, 0),
) -> Make:
    def make(version: int, _ids: Ids) -> Message:
        topics = [
            add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0, 1])
            for name in names
        ]
        if version < 4:
            return add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=topics,
            )
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            transactions=[
                add_partitions_to_txn.AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id,
                    producer_id=producer[0],
                    producer_epoch=producer[1],
                    topics=topics,
                )
            ]
        )

    return make


def adding_offsets(transactional_id: str, group_id: str) -> Make:
    return lambda _version, _ids: add_offsets_to_txn.AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=4711, producer_epoch=0, group_id=group_id
    )


def committing_in(transactional_id: str, group_id: str) -> Make:
    return lambda _version, _ids: txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group_id,
        producer_id=4711,
        producer_epoch=0,
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    txn_offset_commit.TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=1, committed_metadata=""
                    )
                ],
            )
            for name in TOPICS
        ],
    )


def ending(transactional_id: str, producer: tuple[int, int] = (4711, 0)) -> Make:
    return lambda _version, _ids: end_txn.EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=True,
    )


def marking(_version: int, _ids: Ids) -> Message:
    return write_txn_markers.WriteTxnMarkersRequest(
        markers=[
            write_txn_markers.WritableTxnMarker(
                producer_id=4711,
                producer_epoch=0,
                transaction_result=True,
                topics=[
                    write_txn_markers.WritableTxnMarkerTopic(name=name, partition_indexes=[0])
                    for name in TOPICS
                ],
            )
        ]
    )


def describing_transactions(*names: str) -> Make:
    return lambda _version, _ids: describe_transactions.DescribeTransactionsRequest(
        transactional_ids=list(names or TRANSACTIONS)
    )


def listing_transactions(_version: int, _ids: Ids) -> Message:
    return list_transactions.ListTransactionsRequest()
